//! What happens between instructions.

use libipt_sys as sys;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The state that PSB+ repeats, nothing new.
    pub status_update: bool,
    /// When, in ticks of the timestamp counter.
    pub tsc: Option<u64>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Tracing starts.
    Enabled {
        /// Where.
        ip: u64,
    },
    /// Tracing stops at a branch.
    Disabled {
        /// Where the branch goes.
        ip: Option<u64>,
    },
    /// Tracing stops because of an interrupt.
    AsyncDisabled {
        /// Before this instruction.
        at: u64,
        /// Where the interrupt goes.
        ip: Option<u64>,
    },
    /// An interrupt.
    AsyncBranch {
        /// Before this instruction.
        from: u64,
        /// Where it goes.
        to: Option<u64>,
    },
    /// Packets were lost.
    Overflow {
        /// Where tracing goes on, if it does.
        ip: Option<u64>,
    },
    /// Anything else, by libipt's number.
    Other(u32),
}

impl Event {
    pub(super) fn of(raw: &sys::pt_event) -> Self {
        let ip = |ip| (raw.ip_suppressed() == 0).then_some(ip);
        // SAFETY: the field of the union is the one that belongs to the type; all are plain integers.
        let kind = unsafe {
            match raw.type_ {
                sys::pt_event_type_ptev_enabled => EventKind::Enabled {
                    ip: raw.variant.enabled.ip,
                },
                sys::pt_event_type_ptev_disabled => EventKind::Disabled {
                    ip: ip(raw.variant.disabled.ip),
                },
                sys::pt_event_type_ptev_async_disabled => EventKind::AsyncDisabled {
                    at: raw.variant.async_disabled.at,
                    ip: ip(raw.variant.async_disabled.ip),
                },
                sys::pt_event_type_ptev_async_branch => EventKind::AsyncBranch {
                    from: raw.variant.async_branch.from,
                    to: ip(raw.variant.async_branch.to),
                },
                sys::pt_event_type_ptev_overflow => EventKind::Overflow {
                    ip: ip(raw.variant.overflow.ip),
                },
                other => EventKind::Other(other),
            }
        };
        Self {
            kind,
            status_update: raw.status_update() != 0,
            tsc: (raw.has_tsc() != 0).then_some(raw.tsc),
        }
    }
}
