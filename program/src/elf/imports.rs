//! What stands behind a PLT stub or a GOT slot.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use object::LittleEndian as LE;
use object::read::elf::SectionHeader;

use super::{Elf, Pointer};
use crate::addr::{LinkAddr, LinkRange};

/// A function or variable of another file, as numbered in `.dynsym`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(pub u32);

/// Where a stub or slot leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// To another file.
    Import(ImportId),
    /// To a place in this file.
    Local(LinkAddr),
    /// To what the resolver at this address chooses (an IFUNC).
    Resolved(LinkAddr),
}

impl From<Pointer> for Linkage {
    fn from(pointer: Pointer) -> Self {
        match pointer {
            Pointer::Local(addr) => Self::Local(addr),
            Pointer::Resolved(addr) => Self::Resolved(addr),
            Pointer::Import(index) => Self::Import(ImportId(index)),
        }
    }
}

/// Sections of linkage stubs and the step from stub to stub.
const STUB_SECTIONS: [(&str, u64); 4] = [(".plt", 16), (".plt.sec", 16), (".plt.got", 8), (".iplt", 16)];

/// Sections of linkage slots.
const LINK_TABLES: [&str; 2] = [".got", ".got.plt"];

impl<'a> Elf<'a> {
    /// The name of an import, as in the symbol table (mangled, without version).
    #[must_use]
    pub fn import_name(&self, id: ImportId) -> Option<&'a str> {
        let table = self.dynsym();
        table.name_at(table.raw().get(usize::try_from(id.0).ok()?)?.st_name.get(LE))
    }

    /// Where a GOT slot leads: `call *slot(%rip)`, as `-fno-plt` and rustc emit.
    #[must_use]
    pub fn slot_linkage(&self, slot: LinkAddr) -> Option<Linkage> {
        self.slot(slot).map(Linkage::from)
    }

    /// Whether a slot is the linker's (part of the GOT), filled at start and not written by the program, as
    /// opposed to a variable that happens to hold a pointer.
    #[must_use]
    pub fn is_link_slot(&self, slot: LinkAddr) -> bool {
        let tables = self.link_tables.get_or_init(|| {
            let headers = LINK_TABLES.iter().filter_map(|name| self.header_named(name));
            headers
                .map(|header| {
                    let start = header.sh_addr.get(LE);
                    LinkAddr(start)..LinkAddr(start.saturating_add(header.sh_size(LE)))
                })
                .collect()
        });
        tables.iter().any(|table| table.contains(&slot))
    }

    /// Every slot of the linker with where it leads: few of the pointers that are filled at start.
    pub(crate) fn linked_slots(&self) -> &[(LinkAddr, Linkage)] {
        self.linked_slots.get_or_init(|| {
            let slots = self.relocations().iter();
            slots
                .filter(|(slot, _)| self.is_link_slot(*slot))
                .map(|(slot, pointer)| (slot, Linkage::from(pointer)))
                .collect()
        })
    }

    /// Where the PLT stub at `addr` leads.
    #[must_use]
    pub fn stub_linkage(&self, addr: LinkAddr) -> Option<Linkage> {
        let stubs = self.stubs();
        let at = stubs.binary_search_by_key(&addr, |(stub, _)| *stub).ok()?;
        stubs.get(at).map(|(_, linkage)| *linkage)
    }

    /// Every PLT stub with where it leads, by address, found by decoding the stubs' indirect jumps.
    #[must_use]
    pub fn stubs(&self) -> &[(LinkAddr, Linkage)] {
        self.stubs.get_or_init(|| {
            let mut stubs = Vec::new();
            for (range, step) in self.stub_ranges() {
                let mut at = range.start;
                while at < range.end {
                    let len = (range.end.0 - at.0).min(16);
                    let slot = self.bytes_at(at, len).and_then(|bytes| stub_slot(bytes, at));
                    stubs.extend(
                        slot.and_then(|slot| self.slot_linkage(slot))
                            .map(|linkage| (at, linkage)),
                    );
                    at = LinkAddr(at.0.saturating_add(step));
                }
            }
            stubs.sort_unstable_by_key(|(addr, _)| *addr);
            stubs
        })
    }

    /// Whether an address lies in a section of linkage stubs.
    #[must_use]
    pub fn is_stub(&self, addr: LinkAddr) -> bool {
        self.stub_ranges().any(|(range, _)| range.contains(&addr))
    }

    fn stub_ranges(&self) -> impl Iterator<Item = (LinkRange, u64)> {
        STUB_SECTIONS.iter().filter_map(|(name, usual_step)| {
            let section = self.header_named(name)?;
            let start = section.sh_addr.get(LE);
            let range = self.segments().mapped_part(start, section.sh_size(LE))?;
            // Some linkers write no entry size or the wrong one; a step that is too small only costs tries.
            let step = if section.sh_entsize(LE) == 16 {
                16
            } else {
                *usual_step
            };
            Some((range, step))
        })
    }
}

/// The slot that a stub jumps through: `[endbr64] [bnd] jmp *slot(%rip)`.
fn stub_slot(bytes: &[u8], addr: LinkAddr) -> Option<LinkAddr> {
    let mut decoder = Decoder::with_ip(64, bytes, addr.0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    for _ in 0..2 {
        decoder.decode_out(&mut instruction);
        if instruction.mnemonic() == Mnemonic::Endbr64 {
            continue;
        }
        let jumps = instruction.flow_control() == FlowControl::IndirectBranch
            && instruction.is_ip_rel_memory_operand();
        return jumps.then(|| LinkAddr(instruction.ip_rel_memory_address()));
    }
    None
}
