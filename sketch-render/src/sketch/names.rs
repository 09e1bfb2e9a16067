//! Names that are too long, cut where they say least.

use crate::text::{cut, plain_start, width};

/// Longer names are machine-made through and through; what comes after this is not looked at.
const LONGEST: usize = 4096;

/// A name that is harmless and fits into so many columns. Template and generic arguments go first (`Map<…>::find`),
/// outermost last; then the middle, because people know a name by its beginning and its end.
#[must_use]
pub(crate) fn short(name: &str, columns: usize) -> String {
    let name = plain_start(name, LONGEST);
    if width(&name) <= columns {
        return name;
    }
    let deepest = depths(&name).into_iter().max().unwrap_or(0);
    let folded = (0..deepest).rev().map(|depth| fold(&name, depth));
    let mut best = name.clone();
    for folded in folded {
        if width(&folded) <= columns {
            return folded;
        }
        best = folded;
    }
    let best = without_arguments(&best);
    if width(&best) <= columns {
        return best;
    }
    let ends = best.match_indices("::").map(|(at, _)| best.get(at..));
    let ends = ends.flatten().map(|end| format!("…{end}"));
    ends.into_iter()
        .find(|end| width(end) <= columns)
        .unwrap_or_else(|| middle(&best, columns))
}

/// `f(…) const` for `f(int, char) const`.
fn without_arguments(name: &str) -> String {
    match (name.find('('), name.rfind(')')) {
        (Some(open), Some(close)) if open > 0 && open + 1 < close => {
            let (head, tail) = (name.get(..open).unwrap_or(name), name.get(close..).unwrap_or(")"));
            format!("{head}(…{tail}")
        }
        _ => name.to_owned(),
    }
}

/// How deep in angle brackets each character is. `->`, `<<`, `operator<` and the like are no brackets, so a name
/// whose brackets do not match has none.
fn depths(name: &str) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut before = ' ';
    let mut all = Vec::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '<' => {
                depth += 1;
                all.push(depth - 1);
            }
            '>' if before != '-' => {
                let Some(outer) = depth.checked_sub(1) else {
                    return vec![0; name.chars().count()];
                };
                depth = outer;
                all.push(depth);
            }
            _ => all.push(depth),
        }
        before = c;
    }
    if depth == 0 { all } else { vec![0; all.len()] }
}

/// The name with everything that is deeper than so many brackets replaced by `…`.
fn fold(name: &str, depth: usize) -> String {
    let mut out = String::with_capacity(name.len());
    for (c, at) in name.chars().zip(depths(name)) {
        if at <= depth {
            out.push(c);
        } else if !out.ends_with('…') {
            out.push('…');
        }
    }
    out
}

/// The name without its middle.
fn middle(name: &str, columns: usize) -> String {
    let head = columns.saturating_sub(1).div_ceil(2);
    let tail = columns.saturating_sub(1).saturating_sub(head);
    let mut end = String::new();
    for c in name.chars().rev() {
        if width(&end) + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) > tail {
            break;
        }
        end.insert(0, c);
    }
    // `cut` puts the `…` in.
    cut(name, head + 1) + &end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments_go_before_the_name_does() {
        let name = "std::map<std::string, std::vector<int>>::find";
        assert_eq!(short(name, 80), name);
        assert_eq!(
            short(name, 40),
            "std::map<std::string, std::vector<…>>::find".replace("std::string, std::vector<…>", "…")
        );
        assert_eq!(short(name, 43), "std::map<std::string, std::vector<…>>::find");
        assert_eq!(short(name, 14), "…::find");
        assert_eq!(short("take(queue*, int) const", 16), "take(…) const");
    }

    #[test]
    fn without_parts_to_leave_out_the_middle_goes() {
        assert_eq!(short("abcdefghijklmnopqrstuvwxyz", 9), "abcd…wxyz");
    }

    #[test]
    fn operators_are_no_brackets() {
        let name = format!("{}::operator<", "x".repeat(40));
        assert_eq!(short(&name, 20), "…::operator<");
        assert_eq!(short("f(a)->b", 40), "f(a)->b");
    }
}
