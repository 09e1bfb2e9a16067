//! Vtables: the tables through which C++ and Rust libraries call a thread's routine.

use program::code::InstrIx;
use program::elf::Pointer;
use program::{FunctionRef, LinkAddr};

use super::look::{Look, Looked};
use super::names;

/// Which library's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// libstdc++'s `std::thread::_State_impl`: destructors in the first two slots, `_M_run` in the third.
    Cpp,
    /// A Rust trait object of `FnOnce()`: drop, size, alignment, `call_once`.
    Rust,
}

/// The routine in the table nearest before `call`, whose address the function makes; or a function that it
/// calls before, as unoptimised constructors are.
pub(crate) fn routine_before(
    look: &Look<'_, '_>,
    at: &Looked<'_, '_>,
    call: InstrIx,
    style: Style,
) -> Option<FunctionRef> {
    if let Some(found) = last_routine(look, at, call, style) {
        return Some(found);
    }
    let earlier = at.callees().into_iter().rev().filter(|(ix, _)| *ix < call);
    let library = earlier.filter(|(_, callee)| look.symbol(*callee).is_some_and(names::is_library));
    library.take(16).find_map(|(_, callee)| {
        let inner = look.at(callee)?;
        let end = InstrIx(u32::try_from(inner.flow.instructions.len()).ok()?);
        last_routine(look, &inner, end, style)
    })
}

fn last_routine(
    look: &Look<'_, '_>,
    at: &Looked<'_, '_>,
    before: InstrIx,
    style: Style,
) -> Option<FunctionRef> {
    let mut tables = at.addresses().rev().filter(|(ix, _)| *ix < before);
    tables.find_map(|(_, table)| {
        // Unoptimised code may take a table from its beginning and add what stands before the functions.
        let starts = match style {
            Style::Cpp => &[0, 16][..],
            Style::Rust => &[0],
        };
        let mut starts = starts.iter().map(|&start| table.offset(start));
        starts.find_map(|table| routine_in(look, at, table, style))
    })
}

/// The routine of a table, if there is one at this address.
fn routine_in(
    look: &Look<'_, '_>,
    at: &Looked<'_, '_>,
    table: LinkAddr,
    style: Style,
) -> Option<FunctionRef> {
    let elf = at.module.elf();
    if elf.segments().is_executable(table) {
        return None;
    }
    let function = |slot: i64| at.function_starting_at(elf.pointer_at(table.offset(8 * slot))?);
    let named = |id: FunctionRef, part: &str| look.symbol(id).is_none_or(|symbol| symbol.contains(part));
    match style {
        Style::Cpp => {
            // The slot before the first holds the type; only then the destructors are what they seem.
            elf.slot(table.offset(-8))?;
            // clang puts the base's destructor, which is in the library, in place of one that does the same.
            let destructor = |slot: i64| match elf.slot(table.offset(8 * slot))? {
                Pointer::Local(addr) => at.function_starting_at(addr).map(drop),
                Pointer::Import(_) | Pointer::Resolved(_) => Some(()),
            };
            destructor(0)?;
            destructor(1)?;
            function(2).filter(|&run| named(run, "6_M_runEv"))
        }
        Style::Rust => {
            let number = |slot: i64| {
                let bytes = elf.bytes_at(table.offset(8 * slot), 8)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            };
            let alignment = number(2)?;
            let sized = alignment.is_power_of_two() && alignment <= 4096 && number(1)? < 1 << 32;
            function(3).filter(|&run| sized && named(run, "call_once"))
        }
    }
}
