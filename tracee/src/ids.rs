//! Processes and threads by number, as types that cannot be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as system calls take it. One that no process can have becomes `i32::MAX`, which
            /// is above the kernel's limit: the call then says that there is no such process.
            #[must_use]
            pub fn raw(self) -> i32 {
                i32::try_from(self.0).unwrap_or(i32::MAX)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A process: what the kernel calls a thread group.
    Pid
}
id! {
    /// A thread. The first thread of a process has the process's number.
    Tid
}

impl Pid {
    /// The process's first thread.
    #[must_use]
    pub fn first_thread(self) -> Tid {
        Tid(self.0)
    }
}

impl Pid {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        Self(std::process::id())
    }
}

impl Tid {
    /// The calling thread.
    #[must_use]
    pub fn this() -> Self {
        // SAFETY: takes nothing and cannot fail.
        Self(unsafe { libc::gettid() }.cast_unsigned())
    }
}

/// `PROC_PID_INIT_INO`: the inode of the namespace that process numbers are of outside of all containers.
pub(crate) const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
