//! Numbers and strings as bytes, little end first, and frames with their length before them.

use std::io::{self, Read, Write};

/// No frame is longer; who says so lies.
const LONGEST: u32 = 1 << 24;

/// Bytes being written.
#[derive(Debug, Default)]
pub(super) struct Out(Vec<u8>);

impl Out {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.byte(value.into());
    }

    pub(super) fn word(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn text(&mut self, value: &[u8]) {
        self.word(value.len() as u64);
        self.0.extend(value);
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    /// Writes everything as one frame.
    pub(super) fn send(self, to: &mut impl Write) -> io::Result<()> {
        let len = u32::try_from(self.0.len()).ok().filter(|len| *len <= LONGEST);
        let len = len.ok_or(io::ErrorKind::InvalidInput)?;
        let mut frame = len.to_le_bytes().to_vec();
        frame.extend(self.0);
        to.write_all(&frame)
    }
}

/// Reads one frame; `None` at the end of the stream.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Grows as bytes come: a length alone takes no memory.
    let mut bytes = Vec::new();
    from.take(len.into()).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != u64::from(len) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes))
}

/// Bytes being read. Whatever is not there is `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct In<'b>(&'b [u8]);

impl<'b> In<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        u32::try_from(self.word()?).ok()
    }

    pub(super) fn text(&mut self) -> Option<&'b [u8]> {
        let len = usize::try_from(self.word()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn option<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? {
            Some(Some(take(self)?))
        } else {
            Some(None)
        }
    }

    /// So many things as are said to come; no more than there are bytes for.
    pub(super) fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.word()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(take(self)?);
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        let mut stream = Vec::new();
        let mut out = Out::default();
        out.word(7);
        out.option(Some(3), |out, value| out.byte(value));
        out.text(b"abc");
        out.send(&mut stream).unwrap();
        Out::default().send(&mut stream).unwrap();
        let mut reader = &stream[..];
        let frame = receive(&mut reader).unwrap().unwrap();
        let mut bytes = In::new(&frame);
        assert_eq!(bytes.word(), Some(7));
        assert_eq!(bytes.option(In::byte), Some(Some(3)));
        assert_eq!(bytes.text(), Some(&b"abc"[..]));
        assert!(bytes.is_empty() && bytes.byte().is_none());
        assert_eq!(receive(&mut reader).unwrap(), Some(Vec::new()));
        assert_eq!(receive(&mut reader).unwrap(), None);
    }

    #[test]
    fn lies_about_lengths_are_errors() {
        assert!(receive(&mut &[0xff, 0xff, 0xff, 0xff, 1][..]).is_err());
        assert!(receive(&mut &[9, 0, 0, 0, 1][..]).is_err());
        let mut huge = Out::default();
        huge.word(u64::MAX);
        let bytes = huge.0;
        assert_eq!(In::new(&bytes).text(), None);
        assert_eq!(In::new(&bytes).list(|bytes| bytes.byte()), None);
    }
}
