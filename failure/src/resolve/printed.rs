//! A line of output that tells of a failure: which code printed it.
//!
//! Output is written when a buffer is full or the process ends, long after the statement that made it. But the program
//! has the words: the longest piece of the line that is in its data, and that code refers to. A piece that is all of a text, or all between two
//! values that are printed, tells more than a longer one out of the middle of another message.

use std::collections::{BTreeSet, HashSet};

use program::code::{AddressTaken, Code};
use program::{LinkAddr, Module, Pc, Program};

use super::EXECUTABLE;
use super::frame::is_own;

/// Shorter pieces are in every program.
const SHORTEST: usize = 4;
/// What of a line is looked for.
const LONGEST: usize = 512;
/// How many times as long another piece has to be to come before a whole one.
const WHOLE: usize = 2;
/// Pieces that are looked for in the code, the longest first.
const MOST_PIECES: usize = 64;
/// Instructions behind the one that takes the text's address, among which it is passed to somebody.
const NEAR: usize = 24;

/// The calls that can have printed a line, by address.
pub(super) fn at(program: &Program<'_>, line: &str) -> BTreeSet<Pc> {
    let Some(module) = program.module(EXECUTABLE) else {
        return BTreeSet::new();
    };
    let line = line.as_bytes();
    let line = line.get(..LONGEST).unwrap_or(line);
    let printing = |piece: Piece| {
        let users = piece.starts.into_iter();
        let users = users.flat_map(|start| users_of(module.code(), start));
        let calls = users.map(|user| Pc {
            module: EXECUTABLE,
            addr: call_after(module.code(), user).unwrap_or(user),
        });
        calls
            .filter(|call| is_own(program, *call))
            .collect::<BTreeSet<Pc>>()
    };
    let mut found = pieces(module, line).into_iter().map(printing);
    found.find(|calls| !calls.is_empty()).unwrap_or_default()
}

/// A piece of the line that is in the program's data.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    len: usize,
    /// Nothing of the text around it is missing in the line.
    whole: bool,
    /// Where code refers to: the piece, or the text around it.
    starts: Vec<LinkAddr>,
}

/// The pieces of a line in a module's constants, the longest first.
fn pieces(module: &Module<'_>, line: &[u8]) -> Vec<Piece> {
    let grams: HashSet<&[u8]> = line.windows(SHORTEST).collect();
    // Most bytes are told by the two that a piece would begin with.
    let mut begins = vec![false; 1 << 16];
    let pair = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    grams.iter().for_each(|gram| begins[pair(gram)] = true);
    let mut pieces = Vec::new();
    for data in module.elf().segments().data() {
        let Some(bytes) = module.elf().bytes_at(data.start, data.end.0 - data.start.0) else {
            continue;
        };
        let mut from = 0;
        while let Some(gram) = bytes.get(from..from + SHORTEST) {
            let known = begins[pair(gram)] && grams.contains(gram);
            let len = if known {
                longest(bytes.get(from..).unwrap_or_default(), line)
            } else {
                0
            };
            if len >= SHORTEST {
                pieces.push(Piece {
                    len,
                    whole: is_whole(bytes, from, len),
                    starts: starts(bytes, from, data.start),
                });
            }
            from += len.max(1);
        }
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len * if piece.whole { WHOLE } else { 1 }));
    pieces.truncate(MOST_PIECES);
    pieces
}

/// Whether a piece goes from the beginning of a text, or a value that is printed, to the end of one or the next value. Texts that no zero
/// ends are not known to be whole.
fn is_whole(bytes: &[u8], from: usize, len: usize) -> bool {
    let before = bytes.get(..from).unwrap_or_default();
    let ends = matches!(bytes.get(from + len), Some(0 | b'%' | b'\n'));
    ends && (before.last().is_none_or(|byte| *byte == 0) || ends_in_value(before))
}

/// Whether a text ends with a conversion of `printf`: `%s`, `%-8.3lu`.
fn ends_in_value(text: &[u8]) -> bool {
    let Some((conversion, before)) = text.split_last() else {
        return false;
    };
    let modifiers = before
        .iter()
        .rev()
        .take_while(|byte| b"-+ #.*hlLqjzt0123456789".contains(byte));
    let at = before.len() - modifiers.count();
    conversion.is_ascii_alphabetic() && before.get(..at).is_some_and(|before| before.ends_with(b"%"))
}

/// How much of the line the text begins with.
fn longest(text: &[u8], line: &[u8]) -> usize {
    let common = |from: usize| {
        let rest = line.get(from..).unwrap_or_default();
        rest.iter()
            .zip(text)
            .take_while(|(one, other)| one == other)
            .count()
    };
    (0..line.len()).map(common).max().unwrap_or(0)
}

/// The piece itself, and the text up to the zero byte before it, of which it may be a part.
fn starts(bytes: &[u8], from: usize, base: LinkAddr) -> Vec<LinkAddr> {
    let before = bytes.get(..from).unwrap_or_default();
    let begin = before
        .iter()
        .rposition(|byte| *byte == 0)
        .map_or(0, |zero| zero + 1);
    let mut starts = vec![from];
    if begin != from && from - begin <= LONGEST {
        starts.push(begin);
    }
    let addr = |start: usize| i64::try_from(start).map(|start| base.offset(start));
    starts.into_iter().filter_map(|start| addr(start).ok()).collect()
}

/// Instructions that take the address of a text, or of a pointer to it.
fn users_of(code: &Code<'_>, text: LinkAddr) -> Vec<LinkAddr> {
    let taken = |addr| code.address_taken(addr).into_iter();
    let direct = taken(text).flat_map(|user| match user {
        AddressTaken::Code { at, .. } => vec![at],
        AddressTaken::Data(slot) => taken(slot)
            .filter_map(|user| match user {
                AddressTaken::Code { at, .. } => Some(at),
                AddressTaken::Data(_) => None,
            })
            .collect(),
    });
    direct.collect()
}

/// The call that an instruction prepares: the next one in its block.
fn call_after(code: &Code<'_>, at: LinkAddr) -> Option<LinkAddr> {
    let flow = code.flow(code.functions().at(at)?);
    let from = flow.containing(at)?;
    let block = flow.block(flow.block_of(from)?)?;
    let is_near = (block.last().0 - from.0) as usize <= NEAR;
    (is_near && block.exit.target().is_some())
        .then(|| flow.addr(block.last()))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_piece_of_a_line_counts() {
        assert_eq!(longest(b"total: %ld\0", b"WRONG total: 39"), 7);
        assert_eq!(longest(b"nothing", b"WRONG total: 39"), 0);
        assert_eq!(longest(b"", b"WRONG"), 0);
    }

    #[test]
    fn a_whole_text_is_told_from_a_part_of_another() {
        let whole = |text: &[u8], piece: &[u8]| {
            let from = text.windows(piece.len()).position(|at| at == piece).unwrap_or(0);
            is_whole(text, from, piece.len())
        };
        assert!(whole(b"\0Invalid literal\0", b"Invalid literal"));
        assert!(whole(b"\0%s at line %d\n\0", b" at line "));
        assert!(whole(b"\0%-8.3lu bytes\n\0", b" bytes"));
        assert!(!whole(b"\0Expected separator at line 1\0", b" at line 1"));
        assert!(!whole(b"\0all 100% sure, at line 1\0", b", at line 1"));
        assert!(!whole(b"\0Invalid literals\0", b"Invalid literal"));
    }

    #[test]
    fn a_piece_may_be_a_part_of_a_text() {
        let base = LinkAddr(0x1000);
        assert_eq!(
            starts(b"\0%s: WRONG\0", 3, base),
            [LinkAddr(0x1003), LinkAddr(0x1001)]
        );
        assert_eq!(starts(b"\0WRONG\0", 1, base), [LinkAddr(0x1001)]);
    }
}
