//! Who calls a function, who takes its address, who refers to a variable.

use std::sync::Arc;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

use super::Code;
use super::access::{AccessKind, accesses};
use super::flow::{Exit, FlowGraph, InstrIx, Target};
use super::functions::FunctionId;
use super::scan::short_jumps;
use crate::addr::{LinkAddr, LinkRange};
use crate::elf::{ImportId, Linkage, Pointer};

/// A call or tail call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallSite {
    /// The calling function.
    pub caller: FunctionId,
    /// The call instruction.
    pub at: LinkAddr,
    /// A jump: the callee returns to the caller's caller.
    pub tail: bool,
}

/// A place where an address is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressTaken {
    /// By an instruction.
    Code {
        /// The function of the instruction.
        function: FunctionId,
        /// The instruction.
        at: LinkAddr,
    },
    /// By a pointer in data: a function table, a vtable, an initialised variable.
    Data(LinkAddr),
}

/// What an instruction does with bytes that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// Reads them.
    Read,
    /// Writes them.
    Write,
    /// Reads and writes them.
    ReadWrite,
    /// Takes their address, or reaches them through an index.
    Address,
}

/// An instruction that refers to some bytes by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The function of the instruction.
    pub function: FunctionId,
    /// The instruction.
    pub at: LinkAddr,
    /// What it does.
    pub kind: ReferenceKind,
}

impl<'a> Code<'a> {
    /// Searches all code for calls and references.
    #[must_use]
    pub fn everywhere(&self) -> Search<'_, 'a> {
        self.bring_all();
        Search {
            code: self,
            within: None,
        }
    }

    /// Searches some code, ranges in order, for calls and references: that which can name what is searched.
    #[must_use]
    pub fn within<'c>(&'c self, ranges: &'c [LinkRange]) -> Search<'c, 'a> {
        self.bring(ranges);
        Search {
            code: self,
            within: Some(ranges),
        }
    }

    /// [`Search::callers_of`] everywhere.
    #[must_use]
    pub fn callers_of(&self, function: FunctionId) -> Vec<CallSite> {
        self.everywhere().callers_of(function)
    }

    /// Calls of a function of another file.
    #[must_use]
    pub fn callers_of_import(&self, import: ImportId) -> Vec<CallSite> {
        self.everywhere().calls_to(Target::Import(import), |linkage| {
            linkage == Linkage::Import(import)
        })
    }

    /// [`Search::address_taken`] everywhere.
    #[must_use]
    pub fn address_taken(&self, addr: LinkAddr) -> Vec<AddressTaken> {
        self.everywhere().address_taken(addr)
    }

    /// [`Search::references_to`] everywhere.
    #[must_use]
    pub fn references_to(&self, range: &LinkRange) -> Vec<Reference> {
        self.everywhere().references_to(range)
    }

    /// The pointers in data that hold an address when the program starts, the linker's own left out.
    #[must_use]
    pub fn pointers_to(&self, addr: LinkAddr) -> Vec<LinkAddr> {
        let mut slots = self.elf().slots_holding(addr);
        slots.retain(|slot| !self.elf().is_link_slot(*slot));
        slots
    }

    /// Instructions that refer to a thread-local variable by its offset from the thread pointer, in address
    /// order. Only executables know such offsets when they are linked.
    #[must_use]
    pub fn references_to_thread_local(&self, offset: i64) -> Vec<Reference> {
        let mut references = Vec::new();
        let Ok(displacement) = i32::try_from(offset) else {
            return references;
        };
        self.bring_all();
        for code in self.elf().code_ranges() {
            let Some(bytes) = self.elf().bytes_at(code.start, code.end.0 - code.start.0) else {
                continue;
            };
            for at in memchr::memmem::find_iter(bytes, &displacement.to_le_bytes()) {
                let place = code.start.offset(at as i64);
                let Some(function) = self.functions().at(place) else {
                    continue;
                };
                let graph = self.flow(function);
                let found = graph.containing(place).and_then(|ix| {
                    let access = accesses(graph.instruction(ix)?)
                        .find(|access| access.segment.is_some() && access.disp == offset)?;
                    let kind = match access.kind {
                        AccessKind::Read => ReferenceKind::Read,
                        AccessKind::Write => ReferenceKind::Write,
                        AccessKind::ReadWrite => ReferenceKind::ReadWrite,
                    };
                    let at = graph.addr(ix)?;
                    Some(Reference { function, at, kind })
                });
                references.extend(found);
            }
        }
        references.dedup();
        references
    }

    /// The instruction that a byte of code is part of.
    fn instruction_around(&self, place: LinkAddr) -> Option<(Arc<FlowGraph>, InstrIx)> {
        let graph = self.flow(self.functions().at(place)?);
        let ix = graph.containing(place)?;
        Some((graph, ix))
    }
}

/// A search for calls and references in some of the code.
#[derive(Clone, Copy)]
pub struct Search<'c, 'a> {
    code: &'c Code<'a>,
    within: Option<&'c [LinkRange]>,
}

impl Search<'_, '_> {
    /// Direct calls and tail calls of a function, by address: through its entry, its PLT stub or its GOT slot.
    #[must_use]
    pub fn callers_of(self, function: FunctionId) -> Vec<CallSite> {
        let Some(entry) = self.code.functions().get(function).map(|function| function.entry) else {
            return Vec::new();
        };
        self.calls_to(Target::Function(function), |linkage| {
            linkage == Linkage::Local(entry) || linkage == Linkage::Resolved(entry)
        })
    }

    fn calls_to(self, target: Target, is_target: impl Fn(Linkage) -> bool) -> Vec<CallSite> {
        let mut places: Vec<LinkAddr> = Vec::new();
        if let Target::Function(function) = target {
            places.extend(self.code.functions().get(function).map(|function| function.entry));
        }
        places.extend(
            self.code
                .elf()
                .stubs()
                .iter()
                .filter(|(_, linkage)| is_target(*linkage))
                .map(|(stub, _)| *stub),
        );
        places.extend(self.code.elf().link_slots(&is_target));
        let mut sites = Vec::new();
        let mut note = |graph: &FlowGraph, ix: InstrIx| {
            let Some(block) = graph.block_of(ix).and_then(|block| graph.block(block)) else {
                return;
            };
            if block.last() == ix && block.exit.target() == Some(target) {
                let tail = matches!(block.exit, Exit::TailCall(_) | Exit::ConditionalTailCall(_));
                sites.extend(graph.addr(ix).map(|at| CallSite {
                    caller: graph.function,
                    at,
                    tail,
                }));
            }
        };
        for place in places {
            self.each_reference(&(place..place.offset(1)), |graph, ix, _| note(graph, ix));
            self.each_short_jump(place, &mut note);
            // Hand-written code runs into the next function; there is nothing to search for then.
            if let Some((graph, ix)) = self.code.instruction_around(place.offset(-1)) {
                note(&graph, ix);
            }
        }
        sites.sort_unstable_by_key(|site| (site.at, site.caller));
        sites.dedup();
        sites
    }

    /// Where the address `addr` is taken: by instructions, and by pointers in data.
    #[must_use]
    pub fn address_taken(self, addr: LinkAddr) -> Vec<AddressTaken> {
        let mut taken = Vec::new();
        self.each_reference(&(addr..addr.offset(1)), |graph, ix, kind| {
            if kind == Some(ReferenceKind::Address) {
                taken.extend(graph.addr(ix).map(|at| AddressTaken::Code {
                    function: graph.function,
                    at,
                }));
            }
        });
        for slot in self.code.elf().slots_holding(addr) {
            if !self.code.elf().is_link_slot(slot) {
                taken.push(AddressTaken::Data(slot));
                continue;
            }
            // `mov f@GOTPCREL(%rip),%rax` takes the address through the linker's slot.
            self.each_reference(&(slot..slot.offset(8)), |graph, ix, kind| {
                if kind == Some(ReferenceKind::Read) {
                    taken.extend(graph.addr(ix).map(|at| AddressTaken::Code {
                        function: graph.function,
                        at,
                    }));
                }
            });
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// Instructions that refer to a range of bytes (a global variable) by address, in address order.
    #[must_use]
    pub fn references_to(self, range: &LinkRange) -> Vec<Reference> {
        let mut references = Vec::new();
        self.each_reference(range, |graph, ix, kind| {
            if let (Some(kind), Some(at)) = (kind, graph.addr(ix)) {
                references.push(Reference {
                    function: graph.function,
                    at,
                    kind,
                });
            }
        });
        references.sort_unstable_by_key(|reference| (reference.at, reference.function));
        references.dedup();
        references
    }

    /// Calls `each` for every instruction that refers to the range, with what it does (`None` for jumps and calls).
    fn each_reference(
        self,
        range: &LinkRange,
        mut each: impl FnMut(&FlowGraph, InstrIx, Option<ReferenceKind>),
    ) {
        if range.start >= range.end {
            return;
        }
        let places = self.code.places.leading_to(self.code.elf(), range, self.within);
        for &place in places.iter() {
            let Some((graph, ix)) = self.code.instruction_around(place) else {
                continue;
            };
            let kind = graph.instruction(ix).and_then(|found| refers(found, range));
            if let Some(kind) = kind {
                each(&graph, ix, kind);
            }
        }
    }

    /// Calls `each` for every jump to an address that has one byte of displacement: gcc ends functions so
    /// that call their neighbour last.
    fn each_short_jump(self, to: LinkAddr, mut each: impl FnMut(&FlowGraph, InstrIx)) {
        for code in self.code.elf().code_ranges() {
            // Such a jump begins at most so far before its target, and ends at most so far behind.
            let start = code.start.max(LinkAddr(to.0.saturating_sub(SHORT)));
            let end = code.end.min(LinkAddr(to.0.saturating_add(SHORT)));
            let len = end.0.saturating_sub(start.0);
            let bytes = self.code.elf().bytes_at(start, len).unwrap_or_default();
            for place in short_jumps(bytes, start, to) {
                if let Some((graph, ix)) = self.code.instruction_around(place)
                    && graph.addr(ix) == Some(place)
                {
                    each(&graph, ix);
                }
            }
        }
    }
}

/// The reach of one byte of displacement, and the instruction itself.
const SHORT: u64 = 130;

/// Whether and how an instruction refers to a range: `Some(None)` for a jump or call there.
fn refers(instruction: &Instruction, range: &LinkRange) -> Option<Option<ReferenceKind>> {
    if instruction.op0_kind() == OpKind::NearBranch64 {
        return range
            .contains(&LinkAddr(instruction.near_branch_target()))
            .then_some(None);
    }
    let within = |addr: LinkAddr| range.contains(&addr);
    let mut found: Option<ReferenceKind> = None;
    for access in accesses(instruction) {
        let kind = match access.kind {
            AccessKind::Read => ReferenceKind::Read,
            AccessKind::Write => ReferenceKind::Write,
            AccessKind::ReadWrite => ReferenceKind::ReadWrite,
        };
        let overlaps = access.address().is_some_and(|addr| {
            within(addr)
                || (addr < range.start && addr.0.saturating_add(u64::from(access.width)) > range.start.0)
        });
        // `table(,%rax,8)`: the displacement is the address of an array.
        let indexed = access.segment.is_none()
            && access.address().is_none()
            && within(LinkAddr(access.disp.cast_unsigned()));
        found = if overlaps {
            Some(kind)
        } else {
            found.or(indexed.then_some(ReferenceKind::Address))
        };
    }
    if let Some(kind) = found {
        let transfers = matches!(
            instruction.flow_control(),
            FlowControl::IndirectCall | FlowControl::IndirectBranch
        );
        return Some((!transfers).then_some(kind));
    }
    let address = if instruction.mnemonic() == Mnemonic::Lea {
        Some(instruction.memory_displacement64())
    } else {
        (0..instruction.op_count())
            .filter(|op| !matches!(instruction.op_kind(*op), OpKind::Register | OpKind::Memory))
            .find_map(|op| instruction.try_immediate(op).ok())
    };
    address
        .filter(|addr| within(LinkAddr(*addr)))
        .map(|_| Some(ReferenceKind::Address))
}

impl crate::elf::Elf<'_> {
    /// Linkage slots that lead to a target.
    fn link_slots(&self, is_target: impl Fn(Linkage) -> bool) -> Vec<LinkAddr> {
        let slots = self.linked_slots().iter();
        slots
            .filter(|(_, linkage)| is_target(*linkage))
            .map(|(slot, _)| *slot)
            .collect()
    }

    /// Data slots that hold an address when the program starts.
    fn slots_holding(&self, addr: LinkAddr) -> Vec<LinkAddr> {
        let relocations = self.relocations();
        let relocated = relocations.iter().filter(|(_, pointer)| {
            matches!(pointer, Pointer::Local(target) | Pointer::Resolved(target) if *target == addr)
        });
        let mut slots: Vec<LinkAddr> = relocated.map(|(slot, _)| slot).collect();
        let packed = relocations.packed().iter().map(|slot| LinkAddr(*slot));
        slots.extend(packed.filter(|slot| self.pointer_at(*slot) == Some(addr)));
        if self.is_fixed() {
            let wanted = addr.0.to_le_bytes();
            for range in self.segments().data() {
                let Some(bytes) = self.bytes_at(range.start, range.end.0 - range.start.0) else {
                    continue;
                };
                let hits = memchr::memmem::find_iter(bytes, &wanted);
                let places = hits
                    .map(|at| range.start.offset(at as i64))
                    .filter(|place| place.0 % 8 == 0);
                slots.extend(places);
            }
        }
        slots
    }
}
