//! Bytes at addresses.

use super::length::MAX_LENGTH;

/// The size of a page in a file of pages.
pub const PAGE: usize = 4096;

/// Why there is no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The list of addresses is not made of eight-byte numbers.
    #[error("the list of page addresses has {0} bytes, not a multiple of 8: is it the right file?")]
    Addresses(usize),
    /// The two files do not belong together.
    #[error("{addresses} page addresses but {bytes} bytes of pages, {} expected", addresses.saturating_mul(PAGE))]
    Count {
        /// How many addresses.
        addresses: usize,
        /// How many bytes of pages.
        bytes: usize,
    },
}

/// Code as it was in memory when the trace was made.
#[derive(Debug, Clone, Default)]
pub struct Image<'a> {
    /// Sorted, without overlap, neighbours merged where their bytes are neighbours too.
    runs: Vec<Run<'a>>,
}

#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    start: u64,
    /// The address after the last byte: never wraps around.
    end: u64,
    bytes: &'a [u8],
}

impl<'a> Image<'a> {
    /// Code in pieces, each at its address. Of two pieces at the same address the later one counts.
    #[must_use]
    pub fn new(pieces: impl IntoIterator<Item = (u64, &'a [u8])>) -> Self {
        let mut sorted: Vec<(usize, u64, &[u8])> = pieces
            .into_iter()
            .enumerate()
            .map(|(order, (start, bytes))| (order, start, fitting(start, bytes)))
            .filter(|(.., bytes)| !bytes.is_empty())
            .collect();
        sorted.sort_by_key(|&(order, start, _)| (start, order));
        let mut runs: Vec<(usize, Run<'a>)> = Vec::with_capacity(sorted.len());
        for (order, start, bytes) in sorted {
            let mut next = Run::at(start, bytes);
            if let Some((last_order, last)) = runs.last_mut()
                && last.end > next.start
            {
                if order > *last_order {
                    *last = last.until(next.start);
                } else {
                    next = next.since(last.end);
                }
            }
            runs.push((order, next));
        }
        runs.retain(|(_, run)| !run.bytes.is_empty());
        Self {
            runs: runs.into_iter().map(|(_, run)| run).collect(),
        }
    }

    /// Code in one slice: runs of addresses, each with its part of the slice, in the slice's order.
    ///
    /// # Errors
    /// When the files cannot be what they are said to be.
    pub fn from_pages(pages: &'a [u8], addresses: &[u8]) -> Result<Self, ImageError> {
        let (numbers, rest) = addresses.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(ImageError::Addresses(addresses.len()));
        }
        if numbers.len().checked_mul(PAGE) != Some(pages.len()) {
            return Err(ImageError::Count {
                addresses: numbers.len(),
                bytes: pages.len(),
            });
        }
        // Neighbours in the file that are neighbours in memory are one piece, so that code seldom crosses one.
        let mut pieces: Vec<(u64, usize, usize)> = Vec::new();
        for (index, number) in numbers.iter().enumerate() {
            let address = u64::from_le_bytes(*number);
            let offset = index * PAGE;
            match pieces.last_mut() {
                Some((start, from, to)) if start.checked_add((*to - *from) as u64) == Some(address) => {
                    *to = offset + PAGE;
                }
                _ => pieces.push((address, offset, offset + PAGE)),
            }
        }
        let pieces = pieces.into_iter();
        Ok(Self::new(pieces.map(|(start, from, to)| {
            (start, pages.get(from..to).unwrap_or_default())
        })))
    }

    /// The pieces, by address.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &'a [u8])> + '_ {
        self.runs.iter().map(|run| (run.start, run.bytes))
    }

    /// The bytes from an address to the end of its piece; empty where there is no code. `hint` is the piece that
    /// was looked in last, and is set to the one that it was found in.
    #[must_use]
    pub fn from(&self, address: u64, hint: &mut usize) -> &'a [u8] {
        if let Some(run) = self.runs.get(*hint)
            && run.start <= address
            && address < run.end
        {
            return run.since(address).bytes;
        }
        let after = self.runs.partition_point(|run| run.start <= address);
        let Some(index) = after.checked_sub(1) else {
            return &[];
        };
        match self.runs.get(index) {
            Some(run) if address < run.end => {
                *hint = index;
                run.since(address).bytes
            }
            _ => &[],
        }
    }

    /// The bytes of an instruction that may lie across the border of two pieces; how many there are.
    #[must_use]
    pub fn across(&self, address: u64) -> ([u8; MAX_LENGTH], usize) {
        let mut bytes = [0; MAX_LENGTH];
        let mut count = 0;
        let mut hint = usize::MAX;
        while count < MAX_LENGTH {
            let Some(at) = address.checked_add(count as u64) else {
                break;
            };
            let more = self.from(at, &mut hint);
            let Some(free) = bytes.get_mut(count..) else { break };
            let take = more.len().min(free.len());
            if take == 0 {
                break;
            }
            free.iter_mut().zip(more).for_each(|(to, from)| *to = *from);
            count += take;
        }
        (bytes, count)
    }
}

/// The bytes that fit below the end of the address space.
fn fitting(start: u64, bytes: &[u8]) -> &[u8] {
    let room = usize::try_from(u64::MAX - start).unwrap_or(usize::MAX);
    bytes.get(..room).unwrap_or(bytes)
}

impl<'a> Run<'a> {
    fn at(start: u64, bytes: &'a [u8]) -> Self {
        Self {
            start,
            end: start.saturating_add(bytes.len() as u64),
            bytes,
        }
    }

    fn until(self, end: u64) -> Self {
        let length = usize::try_from(end.saturating_sub(self.start)).unwrap_or(usize::MAX);
        Self::at(self.start, self.bytes.get(..length).unwrap_or(self.bytes))
    }

    #[inline]
    fn since(self, start: u64) -> Self {
        let skip = usize::try_from(start.saturating_sub(self.start)).unwrap_or(usize::MAX);
        Self {
            start,
            end: self.end,
            bytes: self.bytes.get(skip..).unwrap_or_default(),
        }
    }
}
