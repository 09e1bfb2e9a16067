//! Names with `*` in them.

/// A name, in which `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// What is between the stars.
    pieces: Vec<String>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            pieces: text.split('*').map(ToOwned::to_owned).collect(),
        }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> String {
        self.pieces.join("*")
    }

    /// Whether a name is one of these. Takes time in proportion to pattern and name: the first place where a piece fits
    /// leaves most to the others.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let (first, rest) = match self.pieces.split_first() {
            Some((only, [])) => return only == name,
            Some(split) => split,
            None => return false,
        };
        let Some((last, middle)) = rest.split_last() else {
            return false;
        };
        let Some(mut left) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        for piece in middle {
            let Some(at) = left.find(piece.as_str()) else {
                return false;
            };
            left = left.get(at + piece.len()..).unwrap_or_default();
        }
        left.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).fits(name);
        assert!(fits("*", "") && fits("*", "nginx") && fits("**", "x"));
        assert!(fits("nginx", "nginx") && !fits("nginx", "nginx2") && !fits("nginx", "anginx"));
        assert!(fits("web-*", "web-7") && !fits("web-*", "db-7") && fits("web-*", "web-"));
        assert!(fits("*-worker", "a-worker") && !fits("*-worker", "a-workers"));
        assert!(fits("a*b*c", "aXbYc") && fits("a*b*c", "abbc") && !fits("a*b*c", "acb"));
        assert!(!fits("ab*ba", "aba"), "no character counts twice");
        assert!(!fits("", "x") && fits("", ""));
        assert!(!fits("NGINX", "nginx"), "names of programs differ by case");
    }

    #[test]
    fn hostile_patterns_and_names_take_no_time() {
        let pattern = Pattern::new(&"a*".repeat(1000));
        assert!(!pattern.fits(&"a".repeat(999)));
        assert!(pattern.fits(&"a".repeat(100_000)));
    }
}
