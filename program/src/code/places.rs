//! The places in the code that may lead to an address: a search for the first few questions, an index for more.
//!
//! A search ([`scan`]) reads all code once, and one slice mostly asks for a handful of addresses. An analysis
//! that asks for hundreds (who calls each function that starts a thread) would read it hundreds of times; for
//! it, one slower pass sorts every displacement by where it leads. Where only part of the code can lead to an
//! address, only that part is searched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::scan::{MAX_TRAILING, Relative, scan};
use crate::addr::{LinkAddr, LinkRange};
use crate::elf::Elf;

/// The index costs about as much as this many searches.
const SEARCHES: usize = 24;

/// Bytes that one thread takes at a time.
const CHUNK: usize = 1 << 20;

/// Places by the start and the end of what they lead to.
type Known = HashMap<(LinkAddr, LinkAddr), Arc<[LinkAddr]>>;

/// Finds displacements by where they lead.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// What searches of all code found.
    known: Mutex<Known>,
    index: OnceLock<Option<Index>>,
}

impl Places {
    /// Positions of displacements that may lead into `wanted`, each of them once or twice, in all code or
    /// `within` some. They are to be checked by decoding.
    pub(super) fn leading_to(
        &self,
        elf: &Elf<'_>,
        wanted: &LinkRange,
        within: Option<&[LinkRange]>,
    ) -> Arc<[LinkAddr]> {
        if let Some(within) = within {
            return search(elf, within, wanted).into();
        }
        let key = (wanted.start, wanted.end);
        let asked = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&key) {
                return Arc::clone(found);
            }
            known.len()
        };
        if asked >= SEARCHES {
            let index = self.index.get_or_init(|| Index::new(elf));
            if let Some(found) = index.as_ref().and_then(|index| index.leading_to(wanted)) {
                return found.into();
            }
        }
        let found: Arc<[LinkAddr]> = search(elf, &elf.code_ranges(), wanted).into();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, Arc::clone(&found));
        found
    }
}

fn search(elf: &Elf<'_>, ranges: &[LinkRange], wanted: &LinkRange) -> Vec<LinkAddr> {
    let mut places = Vec::new();
    for code in ranges {
        let Some(bytes) = elf.bytes_at(code.start, code.end.0.saturating_sub(code.start.0)) else {
            continue;
        };
        places.extend(scan(bytes, code.start, wanted, Relative::ToInstruction));
        if elf.is_fixed() {
            places.extend(scan(bytes, code.start, wanted, Relative::ToZero));
        }
    }
    places
}

/// Displacements by target: where each leads and where it stands, as distances from the start of the image.
#[derive(Debug)]
struct Index {
    image: LinkRange,
    relative: Vec<(u32, u32)>,
    absolute: Vec<(u32, u32)>,
}

impl Index {
    /// `None` for a file that 32-bit distances cannot describe.
    fn new(elf: &Elf<'_>) -> Option<Self> {
        let image = elf.segments().extent()?;
        u32::try_from(image.end.0.checked_sub(image.start.0)?).ok()?;
        let mut index = Self {
            image,
            relative: Vec::new(),
            absolute: Vec::new(),
        };
        for range in elf.code_ranges() {
            let Some(code) = elf.bytes_at(range.start, range.end.0 - range.start.0) else {
                continue;
            };
            index.add(code, range.start, elf.is_fixed());
        }
        index.relative.par_sort_unstable();
        index.absolute.par_sort_unstable();
        Some(index)
    }

    fn add(&mut self, code: &[u8], start: LinkAddr, fixed: bool) {
        let chunks = code.len().div_ceil(CHUNK);
        let found: Vec<_> = (0..chunks)
            .into_par_iter()
            .map(|chunk| {
                let (mut relative, mut absolute) = (Vec::new(), Vec::new());
                for at in chunk * CHUNK..((chunk + 1) * CHUNK).min(code.len()) {
                    let Some(word) = code.get(at..).and_then(<[u8]>::first_chunk) else {
                        break;
                    };
                    let before = code.get(at.saturating_sub(2)..at).unwrap_or_default();
                    let place = start.0.wrapping_add(at as u64);
                    if takes_displacement(before) {
                        let displacement = i64::from(i32::from_le_bytes(*word));
                        let target = place.wrapping_add(4).wrapping_add_signed(displacement);
                        relative.extend(self.entry(target.wrapping_add(MAX_TRAILING), place));
                    }
                    if fixed {
                        absolute.extend(self.entry(u64::from(u32::from_le_bytes(*word)), place));
                    }
                }
                (relative, absolute)
            })
            .collect();
        for (relative, absolute) in found {
            self.relative.extend(relative);
            self.absolute.extend(absolute);
        }
    }

    fn entry(&self, target: u64, place: u64) -> Option<(u32, u32)> {
        let from_start = |addr: u64| u32::try_from(addr.wrapping_sub(self.image.start.0)).ok();
        let size = self.image.end.0 - self.image.start.0;
        (target.wrapping_sub(self.image.start.0) < size.saturating_add(MAX_TRAILING))
            .then_some((from_start(target)?, from_start(place)?))
    }

    /// `None` for addresses that are not of the image.
    fn leading_to(&self, wanted: &LinkRange) -> Option<Vec<LinkAddr>> {
        let inside = self.image.start <= wanted.start && wanted.end <= self.image.end;
        let from = u32::try_from(wanted.start.0.wrapping_sub(self.image.start.0)).ok()?;
        let to = u32::try_from(wanted.end.0.wrapping_sub(self.image.start.0)).ok()?;
        if !inside {
            return None;
        }
        // An entry is at its target with the longest trailing immediate, so that none is below zero.
        let trailing = MAX_TRAILING as u32;
        let mut places: Vec<LinkAddr> = between(&self.relative, from, to.saturating_add(trailing))
            .chain(between(&self.absolute, from, to))
            .map(|place| LinkAddr(self.image.start.0.wrapping_add(u64::from(place))))
            .collect();
        places.sort_unstable();
        places.dedup();
        Some(places)
    }
}

fn between(entries: &[(u32, u32)], from: u32, to: u32) -> impl Iterator<Item = u32> {
    let first = entries.partition_point(|(target, _)| *target < from);
    let last = entries.partition_point(|(target, _)| *target < to);
    let found = entries.get(first..last).unwrap_or_default();
    found.iter().map(|(_, place)| *place)
}

/// Whether a displacement can stand behind these bytes: behind the opcode of a call or jump, or behind a ModRM
/// byte for an operand relative to the instruction.
fn takes_displacement(before: &[u8]) -> bool {
    match before {
        [.., 0xe8 | 0xe9] | [0x0f, 0x80..=0x8f] => true,
        [.., modrm] => modrm & 0xc7 == 0x05,
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_finds_what_a_search_finds() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&file).unwrap();
        let code = crate::code::Code::new(Arc::new(Elf::parse(&file).unwrap()));
        let index = Index::new(&elf).unwrap();
        let mut calls = 0;
        for function in code.functions().iter().step_by(997).take(20) {
            let wanted = function.entry..function.entry.offset(1);
            let indexed = index.leading_to(&wanted).unwrap();
            let searched = Places::default().leading_to(&elf, &wanted, None);
            assert!(indexed.iter().all(|place| searched.contains(place)));
            // The search has no look at opcodes: what it finds besides is in no instruction.
            for place in searched.iter().filter(|place| !indexed.contains(place)) {
                let before = elf.bytes_at(place.offset(-2), 2).unwrap();
                assert!(!takes_displacement(before), "{place:?}");
            }
            calls += indexed.len();
        }
        assert!(calls > 0);
    }
}
