//! Sections as they were before compression.

use std::borrow::Cow;

use object::read::elf::SectionHeader;
use object::read::{CompressedData, CompressionFormat};
use object::{LittleEndian as LE, elf};

use super::Elf;
use crate::files::Files;

/// Nothing bigger is unpacked: a header that promises more is taken for damage.
const MAX_UNCOMPRESSED: u64 = 4 << 30;

/// DEFLATE cannot do better than 1032 to 1; zstd can, but debug sections do not.
const MAX_RATIO: u64 = 1100;

impl<'a> Elf<'a> {
    /// A section's bytes, uncompressed if need be (`SHF_COMPRESSED` with zlib or zstd, or the older
    /// `.zdebug_*` form). What had to be unpacked is kept by `files`.
    #[must_use]
    pub fn section_data(&self, name: &str, files: &'a dyn Files) -> Option<&'a [u8]> {
        let compressed = match self.header_named(name) {
            Some(section) => self.compressed(section)?,
            None => self.old_compressed(name)?,
        };
        uncompressed(compressed, files)
    }

    fn compressed(&self, section: &'a elf::SectionHeader64<LE>) -> Option<CompressedData<'a>> {
        let Some((header, offset, size)) = section.compression(LE, self.bytes()).ok()? else {
            return Some(CompressedData::none(section.data(LE, self.bytes()).ok()?));
        };
        let format = match header.ch_type.get(LE) {
            kind if kind == elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
            kind if kind == elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
            _ => return None,
        };
        let from = usize::try_from(offset).ok()?;
        let to = from.checked_add(usize::try_from(size).ok()?)?;
        Some(CompressedData {
            format,
            data: self.bytes().get(from..to)?,
            uncompressed_size: header.ch_size.get(LE),
        })
    }

    /// `.debug_info` may stand in the file as `.zdebug_info`: "ZLIB", the size in big-endian, the stream.
    fn old_compressed(&self, name: &str) -> Option<CompressedData<'a>> {
        let (_, bytes) = self.section(&format!(".z{}", name.strip_prefix('.')?))?;
        let (header, data) = bytes.split_at_checked(12)?;
        let size = header.strip_prefix(b"ZLIB")?;
        let uncompressed_size = u64::from_be_bytes(size.try_into().ok()?);
        Some(CompressedData {
            format: CompressionFormat::Zlib,
            data,
            uncompressed_size,
        })
    }
}

/// Unpacks a section, unless it claims a size that no honest one has. `files` keeps the result.
pub(crate) fn uncompressed<'a>(compressed: CompressedData<'a>, files: &'a dyn Files) -> Option<&'a [u8]> {
    let stored = compressed.data.len() as u64;
    let size = compressed.uncompressed_size;
    if compressed.format != CompressionFormat::None
        && (size > MAX_UNCOMPRESSED || size > stored.saturating_mul(MAX_RATIO))
    {
        return None;
    }
    match compressed.decompress().ok()? {
        Cow::Borrowed(bytes) => Some(bytes),
        Cow::Owned(bytes) => Some(files.keep(bytes)),
    }
}
