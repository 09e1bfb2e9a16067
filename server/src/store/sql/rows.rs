//! Numbers, states and lists as databases have them.

use std::sync::LazyLock;

use program::BuildId;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::store::StoreError;
use crate::store::model::State;

/// A count or a time. Databases have no unsigned numbers; what does not fit was made up by somebody, and is as large as it gets.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The same, read.
pub(super) fn unsigned(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| StoreError::Damaged(format!("{value} is to be a count")))
}

/// A count or a time in a row.
pub(super) fn count(row: &AnyRow, column: &str) -> Result<u64, StoreError> {
    unsigned(row.try_get(column)?)
}

/// Bytes in a row.
pub(super) fn bytes(row: &AnyRow, column: &str) -> Result<bytes::Bytes, StoreError> {
    Ok(row.try_get::<Vec<u8>, _>(column)?.into())
}

/// How often a bug was widened.
pub(super) fn widened(row: &AnyRow) -> Result<u32, StoreError> {
    Ok(u32::try_from(count(row, "widened")?).unwrap_or(u32::MAX))
}

/// A state, and the build that it is about.
pub(super) fn state_columns(state: &State) -> (&'static str, Option<&[u8]>) {
    let build = match state {
        State::Tracking | State::Stopped => None,
        State::Fixed(build) | State::Regressed(build) => Some(build.0.as_slice()),
    };
    (state.name(), build)
}

/// The same, read.
pub(super) fn state(row: &AnyRow) -> Result<State, StoreError> {
    let state: String = row.try_get("state")?;
    let build: Option<Vec<u8>> = row.try_get("state_build")?;
    match (state.as_str(), build) {
        ("tracking", None) => Ok(State::Tracking),
        ("stopped", None) => Ok(State::Stopped),
        ("fixed", Some(build)) => Ok(State::Fixed(BuildId(build))),
        ("regressed", Some(build)) => Ok(State::Regressed(BuildId(build))),
        (other, _) => Err(StoreError::Damaged(format!("a bug has the state {other:?}"))),
    }
}

/// The first 64 parameters of a statement, for a list that is filled up by [`sixty_four`]: one statement for lists of any length.
pub(super) static IN_64: LazyLock<String> = LazyLock::new(|| {
    let parameters: Vec<String> = (1..=64).map(|parameter| format!("${parameter}")).collect();
    parameters.join(", ")
});

/// A list of at most 64 (and at least one), its last element repeated until there are.
pub(super) fn sixty_four<T>(some: &[T]) -> impl Iterator<Item = &T> {
    some.iter().chain(some.last().into_iter().cycle()).take(64)
}
