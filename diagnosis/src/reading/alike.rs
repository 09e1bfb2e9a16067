//! Which accesses are to the same member of a structure.

use program::Program;
use program::naming::{AccessName, Step};

use super::access_name;
use crate::record::WatchedRecord;

/// A member of a structure, by its name and type. Structures that have one alike are not told apart.
pub(crate) type Member = (String, Option<String>);

/// The member that memory behind a pointer is.
pub(crate) fn member(name: AccessName) -> Option<Member> {
    match name.steps.last()? {
        Step::Member(member) if name.is_pointed => Some((member.to_string(), name.type_name)),
        _ => None,
    }
}

/// Whether two accesses are to the same member.
pub(super) fn same_member(one: &WatchedRecord, other: &WatchedRecord, program: &Program<'_>) -> bool {
    let of = |watched| access_name(watched, program).and_then(member);
    of(one).is_some_and(|one| of(other) == Some(one))
}
