//! Which accesses are to the same member of a structure.

use program::naming::AccessName;
use program::{Pc, Program};

use super::{access_name, module_named, name_at};
use crate::record::WatchedRecord;

/// A member of a structure, by its name and type. Structures that have one alike are not told apart.
pub(crate) type Member = (String, Option<String>);

/// The member that memory behind a pointer is.
pub(crate) fn member(name: AccessName) -> Option<Member> {
    let member = name.steps.last()?.member().filter(|_| name.is_pointed)?;
    Some((member.to_string(), name.type_name))
}

/// Whether an instruction accesses what a location is watched for, by its name. A place in a thread's frames is another variable's as
/// soon as a function has returned.
pub(super) fn is_access_to(watched: &WatchedRecord, at: Pc, program: &Program<'_>) -> bool {
    if module_named(watched.module.as_deref(), program) == Some(at.module) && watched.access == at.addr {
        return true;
    }
    let wanted = access_name(watched, program);
    let found = name_at(at, None, watched.within, watched.width, program);
    let (Some(wanted), Some(found)) = (wanted, found) else {
        return false;
    };
    if wanted.exact == found.exact {
        return true;
    }
    // The owner of the object has it in a variable, and needs no pointer.
    let last = |name: &AccessName| {
        let member = name.steps.last()?.member()?;
        Some((member.to_string(), name.type_name.clone()))
    };
    last(&wanted).is_some_and(|wanted| last(&found) == Some(wanted))
}

/// Whether two accesses are to the same member.
pub(super) fn same_member(one: &WatchedRecord, other: &WatchedRecord, program: &Program<'_>) -> bool {
    let of = |watched| access_name(watched, program).and_then(member);
    of(one).is_some_and(|one| of(other) == Some(one))
}
