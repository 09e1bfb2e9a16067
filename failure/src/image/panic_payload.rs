//! What a Rust panic says, from the payload that it carries.
//!
//! `rust_panic(&mut dyn PanicPayload)` is the last function of the standard library that every panic goes through before
//! its thread is unwound. The payload is one of a few private types. The vtable that comes with it begins with how to drop
//! it, its size and its alignment, as in every Rust program so far; that tells them apart, and the bytes must be text.
//!
//! | size | dropped | what |
//! |---|---|---|
//! | 16 | no | `&'static str`: `panic!("text")`, an index out of bounds |
//! | 16 | yes | `Box<dyn Any>`: a panic that was caught and is resumed; its text was said before |
//! | 24 | yes | `String`: `panic_any(format!(…))` |
//! | 32 | yes | arguments of `format!` and, once the hook has asked for it, their text as a `String` |

use program::RunAddr;

use super::bytes::u64_at;

/// Longer texts are cut.
const MOST: u64 = 4096;

/// The text of a panic's payload, given both words of the reference to it. `None` when it is of another type, or nobody
/// asked for its text before.
pub fn panic_message(
    payload: RunAddr,
    vtable: RunAddr,
    read: &dyn Fn(RunAddr, usize) -> Option<Vec<u8>>,
) -> Option<String> {
    const WORD: u64 = 8;
    let head = read(vtable, 24)?;
    let [dropped, size, align] = [0, 8, 16].map(|at| u64_at(&head, at));
    if align? != WORD {
        return None;
    }
    let bytes = read(payload, usize::try_from(size?).ok().filter(|&size| size <= 32)?)?;
    let words: Vec<u64> = (0..bytes.len() as u64)
        .step_by(8)
        .map_while(|at| u64_at(&bytes, at))
        .collect();
    let (start, len) = match (words.as_slice(), dropped? != 0) {
        (&[start, len], false) => (start, len),
        (&[a, b, c], true) => string([a, b, c])?,
        // The reference to the arguments comes first or last.
        (&[a, b, c, d], true) => string([a, b, c]).or_else(|| string([b, c, d]))?,
        _ => return None,
    };
    let len = usize::try_from(len.min(MOST)).ok().filter(|&len| len > 0)?;
    let text = read(RunAddr(start), len)?;
    let whole = match std::str::from_utf8(&text) {
        Ok(text) => text,
        // Cut in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(text.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    Some(whole.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// Start and length of a `String`: its three words are in an order that the compiler chose. A capacity that no `String`
/// can have means that there is none. No message is as long as the lowest address of a program's data is large.
fn string(words: [u64; 3]) -> Option<(u64, u64)> {
    const LARGEST: u64 = 1 << 20;
    const LOWEST: u64 = LARGEST;
    let [a, b, c] = words;
    let is_string = |&(start, capacity, len): &(u64, u64, u64)| {
        (LOWEST..1 << 47).contains(&start) && len <= capacity && capacity < LARGEST
    };
    [(b, a, c), (a, b, c), (a, c, b), (b, c, a), (c, a, b), (c, b, a)]
        .into_iter()
        .find(is_string)
        .map(|(start, _, len)| (start, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0x55_0000_1000;
    const VTABLE: u64 = 0x55_0000_2000;
    const PAYLOAD: u64 = 0x7f_0000_3000;

    fn said(drop: u64, size: u64, payload: &[u64], text: &[u8]) -> Option<String> {
        let bytes = |words: &[u64]| {
            words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let memory = [
            (TEXT, text.to_vec()),
            (VTABLE, bytes(&[drop, size, 8, 1])),
            (PAYLOAD, bytes(payload)),
        ];
        panic_message(RunAddr(PAYLOAD), RunAddr(VTABLE), &|addr, len| {
            let found = memory.iter().find(|(start, _)| *start == addr.0)?;
            Some(found.1.get(..len)?.to_vec())
        })
    }

    #[test]
    fn texts_of_all_payloads() {
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(said(0, 16, &[TEXT, 4], b"none"), is("none"));
        assert_eq!(said(1, 24, &[16, TEXT, 4], b"told, and room"), is("told"));
        assert_eq!(said(1, 32, &[16, TEXT, 4, PAYLOAD + 64], b"told"), is("told"));
        assert_eq!(said(1, 32, &[PAYLOAD + 64, 16, TEXT, 4], b"told"), is("told"));
    }

    #[test]
    fn what_is_no_text_says_nothing() {
        let unasked = 1 << 63;
        assert_eq!(said(1, 32, &[unasked, TEXT, 0, PAYLOAD + 64], b"told"), None);
        assert_eq!(said(1, 16, &[TEXT, VTABLE], b"told"), None, "a box");
        assert_eq!(said(0, 16, &[TEXT, 4], b"\xff\xfe\xfd\xfc"), None, "no text");
        assert_eq!(said(0, 16, &[TEXT, 0], b"told"), None, "empty");
        assert_eq!(said(0, 1 << 40, &[TEXT, 4], b"told"), None, "large");
        assert_eq!(said(0, 8, &[TEXT], b"told"), None, "small");
        assert_eq!(said(0, 16, &[1, 4], b"told"), None, "not mapped");
    }
}
