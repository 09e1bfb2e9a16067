//! The lines of `/proc/PID/maps`.

use failure::image::Mapping;
use program::{FileOffset, RunAddr};

/// How the kernel marks a mapped file that was removed or replaced since.
const DELETED: &str = " (deleted)";

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapLine {
    /// Place and path, the path without the mark of a deleted file; empty where there is no name.
    pub(super) mapping: Mapping,
    pub(super) writable: bool,
    pub(super) executable: bool,
    pub(super) inode: u64,
    /// The file was removed or replaced after it was mapped.
    pub(super) deleted: bool,
}

/// The mappings with a name, of a file or of the kernel's own (`[vdso]`), in address order. Lines that are
/// none are passed over.
pub(super) fn parse(text: &str) -> Vec<MapLine> {
    parse_all(text)
        .filter(|line| !line.mapping.path.is_empty())
        .collect()
}

/// All mappings, in address order.
pub(super) fn parse_all(text: &str) -> impl Iterator<Item = MapLine> {
    text.lines().filter_map(line)
}

/// `55d0-55d4 r-xp 00002000 fd:01 1234   /usr/bin/a name with spaces (deleted)`
fn line(line: &str) -> Option<MapLine> {
    let mut rest = line;
    let mut field = || {
        let (field, after) = rest.split_once(' ')?;
        rest = after;
        Some(field)
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let rights = field()?.as_bytes();
    let writable = rights.get(1) == Some(&b'w');
    let executable = rights.get(2) == Some(&b'x');
    let offset = hex(field()?)?;
    let _device = field()?;
    // A line without a name ends here, with or without a blank.
    let (inode, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let inode = inode.parse().ok()?;
    let path = rest.trim_start();
    let deleted = inode != 0 && path.ends_with(DELETED);
    let path = path.strip_suffix(DELETED).filter(|_| deleted).unwrap_or(path);
    (start < end).then(|| MapLine {
        mapping: Mapping {
            range: RunAddr(start)..RunAddr(end),
            offset: FileOffset(offset),
            // The kernel writes a line break in a name like this, and only that.
            path: path.replace("\\012", "\n"),
        },
        writable,
        executable,
        inode,
        deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "\
55d0a000-55d0b000 r--p 00000000 fd:01 77                         /opt/a b/server (deleted)
55d0b000-55d0c000 r-xp 00001000 fd:01 77                         /opt/a b/server (deleted)
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                  [vdso]
";
        let found = parse(text);
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].mapping.path, "/opt/a b/server");
        assert_eq!(found[1].mapping.offset, FileOffset(0x1000));
        assert!(found[1].executable && found[1].deleted && !found[0].executable);
        assert_eq!(
            (found[2].mapping.path.as_str(), found[2].deleted),
            ("[vdso]", false)
        );
    }

    #[test]
    fn damage_is_passed_over() {
        for text in [
            "",
            "-",
            "1-2",
            "2-1 r-xp 0 0:0 1 /a",
            "x-y r-xp 0 0:0 1 /a",
            "1-2 r 0 0:0 z /a",
        ] {
            assert_eq!(parse(text), [], "{text}");
        }
    }
}
