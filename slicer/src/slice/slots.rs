//! Calls through a slot: of a table that a function stands in (virtual functions, tables of operations), or of an object
//! that it was put into (callbacks).
//!
//! Which object a call is about would take an alias analysis, which there is none of. But a call through a pointer says how
//! far into the table or object its function stands, and mostly, with debug information, in what: `shape->_vptr.Shape[2]`,
//! `file->ops->close`. A call that fits in both is a candidate, and all of them are callers, the nearest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use program::code::{AccessKind, InstrIx, Target};
use program::naming::{AccessName, Namer, Step};
use program::values::{Base, Gpr, Value};
use program::{FunctionRef, LinkAddr, LinkRange, Module, Pc};

use super::Slice;
use super::pointers::{Pointer, named_address, target_of};
use super::stored::stores;
use crate::view::FunctionView;

/// Places that are looked at for one slot. Looking takes the whole function, and whose code it is takes its unit of the
/// debug information; what is far away says little.
const MOST_LOOKED_AT: usize = 256;

/// Tables that are looked at, and functions that lead to them: a function that hundreds of classes inherit stands at the
/// same place in all of them.
const MOST_TABLES: usize = 32;

/// No table is longer.
const LONGEST_TABLE: u64 = 1 << 16;

/// What a slot is in, by its name in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    /// The table of virtual functions of a class. It is called after the class that introduced it, so that a hierarchy has
    /// one name.
    Virtual(Arc<str>),
    /// A member of a structure.
    Member(Arc<str>),
    /// An element of an array, or a variable by itself.
    Plain,
}

/// Where a function stands: how far into what. Without a name for that there is none: every table of every trait of Rust's
/// has a slot at the same offset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    offset: i32,
    holder: Holder,
    /// Of an object that is made when the program runs.
    in_object: bool,
}

impl Slot {
    /// Whether a call through this offset of something that is named so can be through this slot.
    fn fits(&self, called: Option<&Holder>) -> bool {
        called.is_none_or(|called| *called == self.holder)
    }
}

impl<'p, 'a> Slice<'p, 'a> {
    /// Calls that can be of a function because they go through the slot that it stands in, nearest first. `taken` is
    /// where its address is taken, or that of a table.
    pub(super) fn calls_through_slots(&mut self, function: FunctionRef, taken: &[Pc]) -> Vec<Pc> {
        let Some(module) = self.program.module(function.module) else {
            return Vec::new();
        };
        let Some(entry) = self.entry(function) else {
            return Vec::new();
        };
        let taken = taken.get(..MOST_TABLES).unwrap_or(taken);
        let mut slots = self.slots_in_tables(function, entry, taken);
        slots.extend(self.slots_in_objects(entry, taken));
        let mut found: Vec<Pc> = Vec::new();
        for slot in slots {
            let mut places = module.code().calls_through(slot.offset);
            let near = |place: &LinkAddr| {
                let users = taken.iter().filter(|pc| pc.module == function.module);
                let known = users.map(|pc| pc.addr).chain([entry]);
                known.map(|addr| addr.0.abs_diff(place.0)).min()
            };
            places.sort_by_cached_key(near);
            for addr in places.into_iter().take(MOST_LOOKED_AT) {
                let caller = self.program.function_at(Pc {
                    addr,
                    ..pc_of(function)
                });
                let Some(caller) = caller.filter(|caller| self.program.is_own(*caller)) else {
                    continue;
                };
                let Some(view) = self.view(caller) else { continue };
                let call = view
                    .flow
                    .containing(addr)
                    .filter(|ix| goes_through(&view, *ix, &slot));
                found.extend(call.and_then(|ix| view.pc(ix)).filter(|pc| !found.contains(pc)));
            }
        }
        found
    }

    /// The slots of tables in data that hold a function.
    fn slots_in_tables(&mut self, function: FunctionRef, entry: LinkAddr, taken: &[Pc]) -> BTreeSet<Slot> {
        let mut slots = BTreeSet::new();
        let Some(module) = self.program.module(function.module) else {
            return slots;
        };
        let class = introducing_class(module, entry).map(Holder::Virtual);
        for at in module.code().pointers_to(entry).into_iter().take(MOST_TABLES) {
            let start = at.offset(-i64::try_from(LONGEST_TABLE).unwrap_or(0));
            let table = module.object_at(at).unwrap_or(start..at.offset(8));
            let mut points = Vec::new();
            for user in taken {
                let Some(view) = self.program.function_at(*user).and_then(|user| self.view(user)) else {
                    continue;
                };
                let Some(ix) = view.flow.at(user.addr) else {
                    continue;
                };
                let before = points_in(&view, ix, &(table.start..at.offset(1)));
                let told = || holder_of_static(&view, ix, at).or_else(|| class.clone());
                points.extend(
                    before
                        .into_iter()
                        .map(|(point, holder)| (point, holder.or_else(told))),
                );
            }
            // A table of a class with several bases has several beginnings; a pointer leads to the last before the slot.
            let Some(first) = points.iter().map(|(point, _)| *point).max() else {
                continue;
            };
            let Ok(offset) = i32::try_from(at.0 - first.0) else {
                continue;
            };
            let here = points.into_iter().filter(|(point, _)| *point == first);
            let Some(holder) = here.filter_map(|(_, holder)| holder).max() else {
                continue;
            };
            slots.insert(Slot {
                offset,
                holder,
                in_object: false,
            });
        }
        slots
    }

    /// The members of objects that a function's address is stored to. Nothing but their name tells them from those of
    /// other objects.
    fn slots_in_objects(&mut self, entry: LinkAddr, taken: &[Pc]) -> BTreeSet<Slot> {
        let mut slots = BTreeSet::new();
        for user in taken {
            let Some(view) = self.program.function_at(*user).and_then(|user| self.view(user)) else {
                continue;
            };
            for stored in stores(&view, |value| value == entry) {
                let Value::Sum(_, offset) = stored.place.base else {
                    continue;
                };
                let holder = stored.name.as_ref().map(holder_of);
                if let (Some(holder @ Holder::Member(_)), Ok(offset)) = (holder, i32::try_from(offset)) {
                    slots.insert(Slot {
                        offset,
                        holder,
                        in_object: true,
                    });
                }
            }
        }
        slots
    }
}

fn pc_of(function: FunctionRef) -> Pc {
    Pc {
        module: function.module,
        addr: LinkAddr(0),
    }
}

/// The class that introduced the table of virtual functions which a member function's class has.
fn introducing_class(module: &Module<'_>, entry: LinkAddr) -> Option<Arc<str>> {
    let sources = module.sources();
    let variables = sources.variables_at(entry);
    let this = variables.iter().find(|variable| &*variable.name == "this")?;
    let class = sources.ty(this.ty?).stripped().pointee()?;
    let first = class.member_at(0, 8);
    first.iter().find_map(|member| class_of(&member.path))
}

/// Where, in a part of a table, the pointers to it lead that the function around `ix` makes, and what they are for.
fn points_in(view: &FunctionView<'_, '_>, ix: InstrIx, part: &LinkRange) -> Vec<(LinkAddr, Option<Holder>)> {
    let stored = stores(view, |value| part.contains(&value)).into_iter();
    let stored = stored.map(|stored| {
        let member = stored
            .name
            .and_then(|name| class_of(name.steps.last()?.member()?));
        (stored.value, member.map(Holder::Virtual))
    });
    let named = named_address(view, ix).filter(|addr| part.contains(addr));
    stored.chain(named.map(|addr| (addr, None))).collect()
}

/// What the debug information calls a slot in data.
fn holder_of_static(view: &FunctionView<'_, '_>, ix: InstrIx, slot: LinkAddr) -> Option<Holder> {
    let namer = Namer::new(view.module(), &view.flow, &view.values);
    let name = namer.name_static(ix, slot, 8)?;
    // A table of a Rust trait is named after the type, and calls through it are not.
    (!name.root.name.contains("{vtable}")).then(|| holder_of(&name))
}

/// What the source calls a pointer to a function.
fn holder_of(name: &AccessName) -> Holder {
    let mut steps = name.steps.iter().rev().map(Step::member);
    match (steps.next().flatten(), steps.next().flatten()) {
        (Some(member), _) => Holder::Member(Arc::clone(member)),
        (None, Some(member)) => class_of(member).map_or(Holder::Plain, Holder::Virtual),
        _ => Holder::Plain,
    }
}

/// The class that introduced a table of virtual functions, from what compilers call the member that leads there:
/// `_vptr.Shape` (gcc), `_vptr$Shape` (clang).
fn class_of(member: &str) -> Option<Arc<str>> {
    let class = member.strip_prefix("_vptr")?;
    Some(class.get(1..).unwrap_or_default().into())
}

/// Whether an instruction calls what stands in such a slot of something unknown.
fn goes_through(view: &FunctionView<'_, '_>, call: InstrIx, slot: &Slot) -> bool {
    if view.call_target(call) != Some(Target::Indirect) {
        return false;
    }
    let Pointer::ReadBy(load) = target_of(view, call) else {
        return false;
    };
    let access = view.values.accesses(load).iter().find(|access| !access.implicit);
    let Some(access) = access.filter(|access| access.kind == AccessKind::Read) else {
        return false;
    };
    let unknown = match access.place.base {
        Value::Sum(Base::Entry(gpr), _) if gpr == Gpr::RSP => false,
        Value::Sum(_, offset) => offset == i64::from(slot.offset),
        Value::Const(_) | Value::Unknown => false,
    };
    if !unknown || access.place.index.is_some() || access.place.thread_local {
        return false;
    }
    let namer = Namer::new(view.module(), &view.flow, &view.values);
    let called = namer.name(load, access).map(|name| holder_of(&name));
    // A member of an object is told from others by its name alone.
    let is_member = matches!(slot.holder, Holder::Member(_));
    slot.fits(called.as_ref()) && (called.is_some() || !is_member || !slot.in_object)
}
