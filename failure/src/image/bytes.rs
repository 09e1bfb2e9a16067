//! Little-endian values at checked offsets.

/// `len` bytes at `offset`, if all of them are there.
pub(crate) fn slice(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    bytes.get(start..end)
}

fn array<const N: usize>(bytes: &[u8], offset: u64) -> Option<[u8; N]> {
    slice(bytes, offset, N as u64)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], offset: u64) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: u64) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn i32_at(bytes: &[u8], offset: u64) -> Option<i32> {
    array(bytes, offset).map(i32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: u64) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// The text before the first NUL (or all of it), whatever its encoding.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
