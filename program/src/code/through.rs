//! Finding calls through a slot of a table, without decoding.
//!
//! A call of a virtual function says which slot of the table it wants, and not whose table: `call *0x18(%rax)`, or a load
//! from there and a call of the register. One look at the bytes finds those, and others; hits are checked by decoding.

use rayon::prelude::*;

use super::Code;
use crate::addr::LinkAddr;

/// Bytes that one thread takes at a time.
const CHUNK: usize = 1 << 20;

/// How far before the call of a register the load can be: unoptimised code prepares the arguments in between.
const BEFORE: usize = 128;

/// The longest instruction of interest: opcode, two bytes of operands, displacement.
const LONGEST: usize = 7;

impl Code<'_> {
    /// Places in instructions that may call, or jump, through what stands `offset` bytes into a table, in address order.
    /// All code is looked at; none of it is decoded.
    #[must_use]
    pub fn calls_through(&self, offset: i32) -> Vec<LinkAddr> {
        self.bring_all();
        let mut places = Vec::new();
        for range in self.elf().code_ranges() {
            let length = range.end.0.saturating_sub(range.start.0);
            let Some(code) = self.elf().bytes_at(range.start, length) else {
                continue;
            };
            let hits: Vec<Vec<usize>> = (0..code.len().div_ceil(CHUNK))
                .into_par_iter()
                .map(|chunk| hits(code, chunk * CHUNK, offset))
                .collect();
            places.extend(hits.iter().flatten().map(|at| range.start.offset(*at as i64)));
        }
        places
    }
}

fn hits(code: &[u8], from: usize, offset: i32) -> Vec<usize> {
    let chunk = code.get(from..(from + CHUNK).min(code.len())).unwrap_or_default();
    memchr::memchr_iter(OPCODE, chunk)
        .map(|at| from + at)
        .filter(|at| is_hit(code, *at, offset))
        .collect()
}

/// `ff /2` calls, `ff /4` jumps.
const OPCODE: u8 = 0xff;

fn is_hit(code: &[u8], at: usize, offset: i32) -> bool {
    let instruction = code.get(at..(at + LONGEST).min(code.len())).unwrap_or_default();
    let [_, operands, rest @ ..] = instruction else {
        return false;
    };
    let (mode, transfer, base) = (operands >> 6, (operands >> 3) & 7, operands & 7);
    if transfer != 2 && transfer != 4 {
        return false;
    }
    if mode == 3 {
        let before = code.get(at.saturating_sub(BEFORE)..at).unwrap_or_default();
        // What stands before may be a prefix, or the end of another instruction.
        let extended = before.last().is_some_and(|prefix| prefix & 0xf1 == 0x41);
        return is_loaded(before, offset, base) || extended && is_loaded(before, offset, base + 8);
    }
    let rest = if base == 4 {
        rest.get(1..).unwrap_or_default()
    } else {
        rest
    };
    displacement(mode, base, rest) == Some(offset)
}

/// The displacement of an operand `(%base)`; none for one that is relative to the instruction.
fn displacement(mode: u8, base: u8, rest: &[u8]) -> Option<i32> {
    match mode {
        0 if base != 5 => Some(0),
        1 => rest.first().map(|byte| i32::from(byte.cast_signed())),
        2 => rest.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)),
        _ => None,
    }
}

/// Whether a register may hold what stands at the offset: `mov 0x18(%rax),%rdx`, or `add $0x18,%rax` and `mov (%rax),%rdx`.
fn is_loaded(before: &[u8], offset: i32, register: u8) -> bool {
    loads(before, offset, register) || offset != 0 && adds(before, offset) && loads(before, 0, register)
}

/// Whether there is a load of eight bytes into a register, at the offset from another that is not for the frame.
fn loads(before: &[u8], offset: i32, register: u8) -> bool {
    memchr::memchr_iter(0x8b, before).any(|at| {
        let prefix = at.checked_sub(1).and_then(|prefix| before.get(prefix));
        let (Some(prefix @ 0x48..=0x4f), Some([operands, rest @ ..])) = (prefix, before.get(at + 1..)) else {
            return false;
        };
        let (mode, base) = (operands >> 6, operands & 7);
        let into = ((operands >> 3) & 7) | ((prefix & 4) << 1);
        let (scaled, rest) = match rest {
            [scaled, behind @ ..] if base == 4 => (*scaled, behind),
            _ => (0, rest),
        };
        // `%rsp` is written as a scaled base, `%rbp` as it is; with a prefix they are `%r12` and `%r13`.
        let is_frame = prefix & 1 == 0 && (base == 5 || base == 4 && scaled & 7 == 4);
        mode != 3 && into == register && !is_frame && displacement(mode, base, rest) == Some(offset)
    })
}

fn adds(before: &[u8], offset: i32) -> bool {
    let short = i8::try_from(offset).is_ok_and(|offset| {
        let adds =
            |bytes: &[u8]| matches!(bytes, [0x83, 0xc0..=0xc7, number] if number.cast_signed() == offset);
        before.windows(3).any(adds)
    });
    // `add $imm32,%rax` has an opcode of its own.
    let long = |bytes: &[u8]| matches!(bytes, [0x81, 0xc0..=0xc7, ..] | [_, 0x05, ..]);
    short
        || before
            .windows(6)
            .any(|bytes| long(bytes) && bytes.ends_with(&offset.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], offset: i32) -> Vec<usize> {
        hits(bytes, 0, offset)
    }

    #[test]
    fn calls_and_jumps_through_memory() {
        // call *0x18(%rax); jmp *0x18(%r12); call *0x98(%rdx); call *(%rcx); call *8(%rip)
        let code = [
            0xff, 0x50, 0x18, 0x41, 0xff, 0x64, 0x24, 0x18, 0xff, 0x92, 0x98, 0, 0, 0, 0xff, 0x11, 0xff,
            0x15, 8, 0, 0, 0,
        ];
        assert_eq!(found(&code, 0x18), [0, 4]);
        assert_eq!(found(&code, 0x98), [8]);
        assert_eq!(found(&code, 0), [14]);
        assert_eq!(found(&code, 8), [0; 0]);
    }

    #[test]
    fn calls_of_a_register_that_was_loaded_shortly_before() {
        // mov 0x18(%rax),%rdx; mov %rbx,%rdi; call *%rdx
        let code = [0x48, 0x8b, 0x50, 0x18, 0x48, 0x89, 0xdf, 0xff, 0xd2];
        assert_eq!(found(&code, 0x18), [7]);
        assert_eq!(found(&code, 0x20), [0; 0]);
        // add $0x10,%rax; mov (%rax),%rdx; call *%rdx
        let code = [0x48, 0x83, 0xc0, 0x10, 0x48, 0x8b, 0x10, 0xff, 0xd2];
        assert_eq!(found(&code, 0x10), [7]);
        // add $0x100,%rax; mov (%rax),%rdx; call *%rdx
        let code = [0x48, 0x05, 0, 1, 0, 0, 0x48, 0x8b, 0x10, 0xff, 0xd2];
        assert_eq!(found(&code, 0x100), [9]);
        // mov 0x18(%rbx),%r12; call *%r12
        let code = [0x4c, 0x8b, 0x63, 0x18, 0x41, 0xff, 0xd4];
        assert_eq!(found(&code, 0x18), [5]);
    }

    #[test]
    fn loads_into_other_registers_and_from_the_frame_are_none() {
        // mov 0x18(%rax),%rcx; call *%rdx
        assert_eq!(found(&[0x48, 0x8b, 0x48, 0x18, 0xff, 0xd2], 0x18), [0; 0]);
        // mov 0x18(%rsp),%rdx; call *%rdx
        assert_eq!(found(&[0x48, 0x8b, 0x54, 0x24, 0x18, 0xff, 0xd2], 0x18), [0; 0]);
        // mov 0x18(%rbp),%rdx; call *%rdx
        assert_eq!(found(&[0x48, 0x8b, 0x55, 0x18, 0xff, 0xd2], 0x18), [0; 0]);
    }

    #[test]
    fn code_that_ends_anywhere() {
        let code = [
            0x48, 0x8b, 0x50, 0x18, 0xff, 0x92, 0x98, 0, 0, 0, 0xff, 0x54, 0x24, 0xff,
        ];
        for end in 0..=code.len() {
            for offset in [0, 0x18, 0x98, -1] {
                let _ = found(&code[..end], offset);
            }
        }
    }
}
