//! Pointers that the loader writes at start: which slot gets what.
//!
//! A big position-independent program has a million of them, so nothing is read before the first question,
//! and the table of base-relative ones, which linkers sort by address, is then searched in place.

use object::LittleEndian as LE;
use object::elf::{self, Rela64, Sym64};
use object::read::elf::SectionHeader;

use super::{Elf, SymbolTable};
use crate::addr::LinkAddr;

/// What a slot holds when the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// An address in this file.
    Local(LinkAddr),
    /// What the resolver at this address chooses.
    Resolved(LinkAddr),
    /// A symbol of another file: its index in `.dynsym`.
    Import(u32),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    addr: u64,
    pointer: Pointer,
}

/// All slots with relocations.
#[derive(Debug)]
pub struct Relocations<'a> {
    dynsym: SymbolTable<'a>,
    /// Runs of `R_X86_64_RELATIVE` sorted by address, as they stand in the file.
    sorted: Vec<&'a [Rela64<LE>]>,
    /// Everything else, sorted by address.
    slots: Vec<Slot>,
    /// Slots of packed relative relocations; the pointer stands in the slot itself.
    packed: Vec<u64>,
}

impl<'a> Relocations<'a> {
    fn new(elf: &Elf<'a>) -> Self {
        let mut this = Self {
            dynsym: elf.dynsym(),
            sorted: Vec::new(),
            slots: Vec::new(),
            packed: Vec::new(),
        };
        for section in elf.sections().iter() {
            match section.sh_type(LE) {
                elf::SHT_RELA => {
                    if let Ok(entries) = section.data_as_array::<Rela64<LE>, _>(LE, elf.bytes()) {
                        this.add(entries);
                    }
                }
                elf::SHT_RELR => {
                    if let Ok(words) = section.data_as_array::<object::U64<LE>, _>(LE, elf.bytes()) {
                        unpack(words, &mut this.packed);
                    }
                }
                _ => {}
            }
        }
        this.slots.sort_unstable_by_key(|slot| slot.addr);
        this.packed.sort_unstable();
        this
    }

    fn add(&mut self, entries: &'a [Rela64<LE>]) {
        let mut last = 0;
        let run = entries
            .iter()
            .take_while(|entry| {
                let addr = entry.r_offset.get(LE);
                let ordered = kind(entry) == elf::R_X86_64_RELATIVE.0 && addr >= last;
                last = addr;
                ordered
            })
            .count();
        let (sorted, rest) = entries.split_at(run);
        if !sorted.is_empty() {
            self.sorted.push(sorted);
        }
        self.slots.extend(rest.iter().filter_map(|entry| {
            Some(Slot {
                addr: entry.r_offset.get(LE),
                pointer: pointer(entry, self.dynsym.raw())?,
            })
        }));
    }

    /// What the loader writes into the slot at `addr`. Packed slots give `None` here: their pointer is in
    /// the file ([`Elf::pointer_at`] reads it).
    #[must_use]
    pub fn at(&self, addr: LinkAddr) -> Option<Pointer> {
        if let Ok(found) = self.slots.binary_search_by_key(&addr.0, |slot| slot.addr) {
            return self.slots.get(found).map(|slot| slot.pointer);
        }
        self.sorted.iter().find_map(|run| {
            let found = run
                .binary_search_by_key(&addr.0, |entry| entry.r_offset.get(LE))
                .ok()?;
            Some(Pointer::Local(LinkAddr(
                run.get(found)?.r_addend.get(LE).cast_unsigned(),
            )))
        })
    }

    /// Every slot with its pointer, packed slots excepted; sorted within each table of the file only.
    pub fn iter(&self) -> impl Iterator<Item = (LinkAddr, Pointer)> {
        let sorted = self.sorted.iter().flat_map(|run| run.iter()).map(|entry| {
            (
                LinkAddr(entry.r_offset.get(LE)),
                Pointer::Local(LinkAddr(entry.r_addend.get(LE).cast_unsigned())),
            )
        });
        sorted.chain(self.slots.iter().map(|slot| (LinkAddr(slot.addr), slot.pointer)))
    }

    /// The slots whose pointer stands in the slot itself (`.relr.dyn`), sorted.
    #[must_use]
    pub fn packed(&self) -> &[u64] {
        &self.packed
    }
}

fn kind(entry: &Rela64<LE>) -> u32 {
    (entry.r_info.get(LE) & 0xffff_ffff) as u32
}

fn pointer(entry: &Rela64<LE>, symbols: &[Sym64<LE>]) -> Option<Pointer> {
    let addend = entry.r_addend.get(LE);
    let kind = kind(entry);
    if kind == elf::R_X86_64_RELATIVE.0 {
        return Some(Pointer::Local(LinkAddr(addend.cast_unsigned())));
    }
    if kind == elf::R_X86_64_IRELATIVE.0 {
        return Some(Pointer::Resolved(LinkAddr(addend.cast_unsigned())));
    }
    let holds_symbol = [
        elf::R_X86_64_64.0,
        elf::R_X86_64_GLOB_DAT.0,
        elf::R_X86_64_JUMP_SLOT.0,
    ]
    .contains(&kind);
    if !holds_symbol {
        return None;
    }
    let index = (entry.r_info.get(LE) >> 32) as u32;
    let symbol = symbols.get(usize::try_from(index).ok()?)?;
    if symbol.st_shndx.get(LE) == elf::SHN_UNDEF {
        return Some(Pointer::Import(index));
    }
    // Only R_X86_64_64 has a meaningful addend; the other two store the symbol's address alone.
    let addend = if kind == elf::R_X86_64_64.0 { addend } else { 0 };
    let addr = LinkAddr(symbol.st_value.get(LE)).offset(addend);
    Some(if symbol.st_type() == elf::STT_GNU_IFUNC {
        Pointer::Resolved(addr)
    } else {
        Pointer::Local(addr)
    })
}

/// An even word is the address of a slot; an odd word is a bitmap of the 63 slots that follow.
fn unpack(words: &[object::U64<LE>], slots: &mut Vec<u64>) {
    let mut next = 0u64;
    for word in words {
        let word = word.get(LE);
        if word & 1 == 0 {
            slots.push(word);
            next = word.wrapping_add(8);
        } else {
            let set = (0..63).filter(|bit| (word >> (bit + 1)) & 1 != 0);
            slots.extend(set.map(|bit| next.wrapping_add(8 * bit)));
            next = next.wrapping_add(63 * 8);
        }
    }
}

impl<'a> Elf<'a> {
    /// The relocations, read at the first call.
    #[must_use]
    pub fn relocations(&self) -> &Relocations<'a> {
        self.relocations.get_or_init(|| Relocations::new(self))
    }

    /// The address that stands at a data address when the program starts: how function tables and vtables
    /// are read. `None` when the slot is filled with a symbol of another file, or is no pointer.
    #[must_use]
    pub fn pointer_at(&self, addr: LinkAddr) -> Option<LinkAddr> {
        match self.slot(addr)? {
            Pointer::Local(target) => Some(target),
            Pointer::Resolved(_) | Pointer::Import(_) => None,
        }
    }

    /// What stands at a data address when the program starts, imports and resolved functions included.
    #[must_use]
    pub fn slot(&self, addr: LinkAddr) -> Option<Pointer> {
        let relocations = self.relocations();
        if let Some(pointer) = relocations.at(addr) {
            return Some(pointer);
        }
        let in_place = self.is_fixed() || relocations.packed.binary_search(&addr.0).is_ok();
        let bytes = self.bytes_at(addr, 8).filter(|_| in_place)?;
        let target = LinkAddr(u64::from_le_bytes(bytes.try_into().ok()?));
        self.segments().contains(target).then_some(Pointer::Local(target))
    }
}
