//! Source paths: joined from the pieces that DWARF stores, matched by their last components.

use std::borrow::Cow;

/// `directory/name`, unless the name is absolute. `.` components and doubled slashes go; `a/../` is
/// folded, as compilers write it for headers (a symbolic link there would change the meaning, which is
/// what every debugger accepts).
pub(super) fn join<'t>(pieces: impl IntoIterator<Item = Cow<'t, str>>) -> String {
    let mut path = String::new();
    for piece in pieces {
        if piece.starts_with('/') {
            path.clear();
        }
        if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(&piece);
    }
    normal(&path)
}

fn normal(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut components: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => match components.last() {
                Some(&last) if last != ".." => {
                    components.pop();
                }
                _ if absolute => {}
                _ => components.push(".."),
            },
            _ => components.push(component),
        }
    }
    let joined = components.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

/// Whether a recorded path and the one asked for can mean one file: the recorded one ends with the components of
/// the other. Where a build recorded paths without their beginning, it is the other way round.
///
/// `../src/main.c` is relative to a folder that nobody here knows; what follows the dots is compared.
pub(super) fn ends_with(path: &str, wanted: &str) -> bool {
    let wanted = normal(wanted);
    let wanted = wanted.trim_start_matches("../");
    let ends = |path: &str, end: &str| match path.strip_suffix(end) {
        Some(rest) => !end.is_empty() && (rest.is_empty() || rest.ends_with('/')),
        None => false,
    };
    ends(path, wanted)
        || (!path.starts_with('/') && wanted.starts_with('/') && ends(wanted, path.trim_start_matches("../")))
}

/// The part after the last slash.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether two file names are near enough for "did you mean".
pub(super) fn similar(known: &str, asked: &str) -> bool {
    let (known, asked) = (known.to_lowercase(), asked.to_lowercase());
    if known == asked {
        return true;
    }
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    stem(&known) == stem(&asked) || distance_at_most_two(&known, &asked)
}

/// Edit distance with an early end: both names are short, and only near ones are of interest.
fn distance_at_most_two(left: &str, right: &str) -> bool {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > 2 || left.len() > 256 || left.len() < 4 {
        return false;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        let mut best = i + 1;
        for (j, (r, pair)) in right.iter().zip(row.windows(2)).enumerate() {
            let beside = next[j] + 1;
            let cost = beside.min(pair[1] + 1).min(pair[0] + usize::from(l != r));
            best = best.min(cost);
            next.push(cost);
        }
        if best > 2 {
            return false;
        }
        row = next;
    }
    row.last().is_some_and(|&distance| distance <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_into_a_plain_path() {
        let joined = |pieces: &[&'static str]| join(pieces.iter().map(|&piece| piece.into()));
        assert_eq!(joined(&["/src", "lib/./queue", "pop.c"]), "/src/lib/queue/pop.c");
        assert_eq!(joined(&["/src/build", "../include", "q.h"]), "/src/include/q.h");
        assert_eq!(
            joined(&["/src", "/usr/include", "stdio.h"]),
            "/usr/include/stdio.h"
        );
        assert_eq!(joined(&["..", "a.c"]), "../a.c");
        assert_eq!(joined(&["/..", "a.c"]), "/a.c");
    }

    #[test]
    fn a_suffix_matches_whole_components_only() {
        assert!(ends_with("/src/main.c", "main.c"));
        assert!(ends_with("/src/main.c", "src/main.c"));
        assert!(ends_with("/src/main.c", "/src/main.c"));
        assert!(ends_with("/src/main.c", "./main.c"));
        assert!(ends_with("/src/main.c", "../src/main.c"));
        assert!(ends_with("/src/main.c", "lib/../src/./main.c"));
        assert!(ends_with("src/main.c", "/home/me/app/src/main.c"));
        assert!(!ends_with("src/main.c", "/home/me/app/main.c"));
        assert!(!ends_with("src/main.c", "app/src/main.c"));
        assert!(!ends_with("/src/domain.c", "main.c"));
        assert!(!ends_with("/other/src/main.c", "/src/main.c"));
        assert!(!ends_with("/src/main.c", ""));
    }

    #[test]
    fn near_names_are_similar() {
        assert!(similar("queue.c", "qeue.c"));
        assert!(similar("queue.cpp", "queue.c"));
        assert!(similar("Queue.c", "queue.c"));
        assert!(!similar("stack.c", "queue.c"));
    }
}
