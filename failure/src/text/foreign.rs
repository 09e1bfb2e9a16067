//! Traces of languages that have no machine code of their own to look at.

/// What a line says if the text is a trace of another language.
pub(super) fn language(text: &str) -> Option<&'static str> {
    if text.starts_with("Traceback (most recent call last)") || text.starts_with("Fatal Python error: ") {
        return Some("Python");
    }
    if let Some(rest) = text.strip_prefix("goroutine ") {
        let state = rest.trim_start_matches(|char: char| char.is_ascii_digit());
        return (state.starts_with(" [") && state.ends_with("]:")).then_some("Go");
    }
    if text.starts_with("Exception in thread \"") {
        return Some("Java");
    }
    let call = text.strip_prefix("at ")?;
    let inside = call.strip_suffix(')')?.rsplit_once('(')?.1;
    let (file, _) = inside.split_once(':')?;
    match file.rsplit('.').next()? {
        "java" | "kt" | "scala" => Some("Java"),
        "js" | "mjs" | "cjs" | "ts" => Some("JavaScript"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::language;

    #[test]
    fn other_languages_are_named() {
        assert_eq!(language("Traceback (most recent call last):"), Some("Python"));
        assert_eq!(language("goroutine 17 [chan receive, 5 minutes]:"), Some("Go"));
        assert_eq!(language("at org.example.Main.run(Main.java:12)"), Some("Java"));
        assert_eq!(language("at run (/srv/app/index.js:3:5)"), Some("JavaScript"));
        assert_eq!(language("at ./src/main.rs:3:5"), None);
    }
}
