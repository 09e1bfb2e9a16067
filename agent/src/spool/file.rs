//! One entry in a file.
//!
//! A line that names the format, the kind, the payload's length and its checksum, and the payload: a message of the
//! protocol. A file appears under its name when all of it is on the disk, so whoever is killed while writing leaves a
//! temporary file behind and no half entry; the checksum is for disks that forget.

use prost::Message as _;
use proto::v1::{ReportFailureRequest, Run};

/// What files begin with. A file of another version is none of ours.
const MAGIC: &[u8] = b"failsketch spool 1\n";
const HEADER: usize = MAGIC.len() + 1 + 8 + 8;
/// What waits to be sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A run that was tracked.
    Run(Run),
    /// A failure that nobody tracked.
    Failure(ReportFailureRequest),
}

impl Item {
    /// How many bytes its message has.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Run(run) => run.encoded_len(),
            Self::Failure(failure) => failure.encoded_len(),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Self::Run(run) => (b'r', run.encode_to_vec()),
            Self::Failure(failure) => (b'f', failure.encode_to_vec()),
        };
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.push(kind);
        bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&checksum(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// `None` for bytes that are not what was written.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (&kind, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (sum, payload) = rest.split_first_chunk()?;
        let whole = u64::from_le_bytes(*length) == payload.len() as u64
            && u64::from_le_bytes(*sum) == checksum(payload);
        if !whole {
            return None;
        }
        match kind {
            b'r' => Run::decode(payload).ok().map(Self::Run),
            b'f' => ReportFailureRequest::decode(payload).ok().map(Self::Failure),
            _ => None,
        }
    }
}

/// FNV-1a: against accidents, not against people.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let run = Item::Run(Run {
            id: "r1".to_owned(),
            bug: "b".to_owned(),
            record: vec![1, 2, 3].into(),
            ..Run::default()
        });
        let failure = Item::Failure(ReportFailureRequest {
            id: "f1".to_owned(),
            runs: 7,
            ..ReportFailureRequest::default()
        });
        for item in [run, failure] {
            let bytes = item.to_bytes();
            assert_eq!(Item::from_bytes(&bytes), Some(item));
            for place in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 0x20;
                let read = Item::from_bytes(&damaged);
                assert!(read.is_none() || place == MAGIC.len(), "byte {place}: {read:?}");
                assert_eq!(Item::from_bytes(&bytes[..place]), None, "cut at {place}");
            }
        }
    }
}
