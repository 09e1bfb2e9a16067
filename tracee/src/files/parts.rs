//! Files with the debug information of another file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use program::FileRequest;

/// What a file has of another one's debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All that was taken out of it.
    Debug,
    /// What its debug file has in common with others (`dwz`).
    Supplementary,
}

/// Where the parts of a module are.
pub type Parts = BTreeMap<Part, PathBuf>;

impl Part {
    /// Which part a request is for. Objects of split debug information stay with whoever compiled them, and so do packages of them.
    pub(super) fn of(request: &FileRequest) -> Option<Self> {
        match request {
            FileRequest::DebugByBuildId(_) | FileRequest::DebugLink { .. } => Some(Self::Debug),
            FileRequest::Supplementary { .. } => Some(Self::Supplementary),
            FileRequest::SplitObject { .. } | FileRequest::SplitPackage => None,
        }
    }
}
