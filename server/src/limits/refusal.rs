//! Why something is never going to be taken.

use std::fmt::Display;

use serde::de::DeserializeOwned;

use crate::access::identity::shown;

/// Why a record is refused: sending it again is no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not what it should be.
    #[error("{what} cannot be read: {why} at {path}")]
    Malformed {
        /// What.
        what: &'static str,
        /// The field.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is more of something than is taken.
    #[error("{path}: {is}, and at most {most} are taken")]
    TooMuch {
        /// The field.
        path: String,
        /// How much there is.
        is: usize,
        /// How much there may be.
        most: usize,
    },
    /// Something that cannot be.
    #[error("{path}: {why}")]
    Nonsense {
        /// The field.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// It would take everybody's time and memory.
    #[error(
        "its accesses are of so many threads and instructions that more than {most} orders and interleavings would have to be counted"
    )]
    TooManyPredictors {
        /// How many may be.
        most: usize,
    },
}

/// Reads JSON of which the sender is not trusted.
pub(super) fn read<T: DeserializeOwned>(what: &'static str, bytes: &[u8], most: usize) -> Result<T, Refusal> {
    at_most(what, bytes.len(), most)?;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let malformed = |path: String, why: &dyn Display| Refusal::Malformed {
        what,
        path: short(&path),
        why: short(&why.to_string()),
    };
    let read = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| malformed(error.path().to_string(), error.inner()))?;
    reader
        .end()
        .map_err(|error| malformed("the end".into(), &error))?;
    Ok(read)
}

/// What a sender wrote may be in it.
fn short(text: &str) -> String {
    let shown = shown(text);
    shown.trim_matches('"').to_owned()
}

/// Checks that there is not more of something.
pub(super) fn at_most(path: impl Display, is: usize, most: usize) -> Result<(), Refusal> {
    match is <= most {
        true => Ok(()),
        false => Err(Refusal::TooMuch {
            path: path.to_string(),
            is,
            most,
        }),
    }
}

pub(super) fn nonsense(path: impl Display, why: &'static str) -> Refusal {
    Refusal::Nonsense {
        path: path.to_string(),
        why,
    }
}

/// Checks a name: of a file, a symbol, a thread, a program.
pub(super) fn name(path: impl Display, name: &str, most: usize) -> Result<(), Refusal> {
    if name.chars().any(char::is_control) {
        return Err(nonsense(path, "there is a control character in a name"));
    }
    at_most(path, name.len(), most)
}
