//! What keeps one process from looking into another. The kernel's answer is the same for all reasons.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::facts::Process;
use super::status::Status;
use crate::ids::Pid;

/// The first user namespace of every Linux has this number.
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;
const CAP_SYS_PTRACE: u64 = 1 << 19;

/// Why a process is not ours to look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// It is somebody else's, and we have no right to look at those.
    OtherUser(u32),
    /// It is ours, but has more rights than we have, or has made itself unreadable.
    MoreRights,
    /// We have the right, but only in a user namespace of our own, as in a container without root of the host.
    Namespace,
    /// We have the right everywhere, and all the same the kernel refuses: a security module, or a sandbox around us.
    Rules,
}

impl Barrier {
    /// What is between us and a process.
    pub(crate) fn before(pid: Pid) -> Self {
        let ours = Process::new(Pid::this()).status().ok();
        let theirs = Process::new(pid).status().ok();
        let namespace = fs::metadata("/proc/self/ns/user").map_or(FIRST_USER_NAMESPACE, |file| file.ino());
        Self::between(ours.as_ref(), theirs.as_ref(), namespace)
    }

    pub(crate) fn between(ours: Option<&Status>, theirs: Option<&Status>, namespace: u64) -> Self {
        let capable = ours.is_some_and(|ours| ours.capabilities & CAP_SYS_PTRACE != 0);
        let user = theirs.map(|theirs| theirs.user);
        match user {
            _ if capable && namespace != FIRST_USER_NAMESPACE => Self::Namespace,
            _ if capable => Self::Rules,
            Some(user) if ours.is_none_or(|ours| ours.user != user) => Self::OtherUser(user),
            _ => Self::MoreRights,
        }
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherUser(user) => write!(
                f,
                "it belongs to user {user}: run failsketch as that user or as root (CAP_SYS_PTRACE)"
            ),
            Self::MoreRights => f.write_str(
                "it has more rights than failsketch, or protects itself: run failsketch as root (CAP_SYS_PTRACE)",
            ),
            Self::Namespace => f.write_str(
                "failsketch has CAP_SYS_PTRACE, but only in its own user namespace, and the process is outside of it: run \
                 failsketch where the process runs, or as root of the host",
            ),
            Self::Rules => f.write_str(
                "failsketch has CAP_SYS_PTRACE, and the kernel refuses all the same: a security module or the sandbox that \
                 failsketch runs in protects this process; its log (dmesg, journalctl) may say which",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_apart() {
        let status = |user, capable| {
            let mut status = Process::new(Pid::this()).status().unwrap();
            status.user = user;
            status.capabilities = if capable { u64::MAX } else { 0 };
            status
        };
        let between =
            |ours, theirs, namespace| Barrier::between(Some(&ours), Some(&status(theirs, false)), namespace);
        let here = FIRST_USER_NAMESPACE;
        assert_eq!(between(status(1000, false), 0, here), Barrier::OtherUser(0));
        assert_eq!(between(status(1000, false), 1000, here), Barrier::MoreRights);
        assert_eq!(between(status(0, true), 1000, here), Barrier::Rules);
        assert_eq!(between(status(0, true), 0, here + 9), Barrier::Namespace);
        assert!(!Barrier::Rules.to_string().contains("as root"));
    }
}
