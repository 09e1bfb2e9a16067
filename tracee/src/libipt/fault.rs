//! Errors of libipt, and the state that a step leaves behind.

use std::io;
use std::os::raw::c_int;

use libipt_sys as sys;

/// Why libipt could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The code could not be written where libipt reads it from.
    #[error(
        "cannot make a file in memory for the traced code ({0}): raise the limit of memory or open files"
    )]
    File(#[from] io::Error),

    /// libipt refused.
    #[error("libipt refused {what}: {fault}")]
    Refused {
        /// What it was given.
        what: &'static str,
        /// Its answer.
        fault: Fault,
    },

    /// libipt has no memory.
    #[error("libipt could not allocate {0}: free memory")]
    NoMemory(&'static str),
}

/// An error of libipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// The decoder is not synchronised with the trace.
    #[error("not synchronised")]
    NotSynchronised,
    /// An unknown packet.
    #[error("unknown packet")]
    UnknownPacket,
    /// A packet with impossible content.
    #[error("malformed packet")]
    MalformedPacket,
    /// A packet where it cannot be.
    #[error("unexpected packet")]
    UnexpectedPacket,
    /// The end of the trace.
    #[error("end of the trace")]
    EndOfTrace,
    /// The instruction needs a packet that is not the next one.
    #[error("the trace does not match the code")]
    Mismatch,
    /// An address is missing.
    #[error("a packet lacks its address")]
    NoAddress,
    /// No code there.
    #[error("no code at the address")]
    NoCode,
    /// Bytes that are no instruction.
    #[error("not an instruction")]
    NotAnInstruction,
    /// A compressed return without a call.
    #[error("return without a call")]
    NoCall,
    /// A compressed return that was not taken.
    #[error("return not taken")]
    ReturnNotTaken,
    /// The state that PSB+ tells is not the decoder's.
    #[error("the state after PSB is another one")]
    BadStatus,
    /// Branches while tracing is off.
    #[error("branches while tracing is off")]
    NotEnabled,
    /// Anything else: libipt's number.
    #[error("error {0}")]
    Other(u32),
}

impl Fault {
    pub(super) fn of(code: c_int) -> Self {
        let code = code.unsigned_abs();
        match code {
            sys::pt_error_code_pte_nosync => Self::NotSynchronised,
            sys::pt_error_code_pte_bad_opc => Self::UnknownPacket,
            sys::pt_error_code_pte_bad_packet => Self::MalformedPacket,
            sys::pt_error_code_pte_bad_context => Self::UnexpectedPacket,
            sys::pt_error_code_pte_eos => Self::EndOfTrace,
            sys::pt_error_code_pte_bad_query => Self::Mismatch,
            sys::pt_error_code_pte_noip | sys::pt_error_code_pte_ip_suppressed => Self::NoAddress,
            sys::pt_error_code_pte_nomap => Self::NoCode,
            sys::pt_error_code_pte_bad_insn => Self::NotAnInstruction,
            sys::pt_error_code_pte_retstack_empty => Self::NoCall,
            sys::pt_error_code_pte_bad_retcomp => Self::ReturnNotTaken,
            sys::pt_error_code_pte_bad_status_update => Self::BadStatus,
            sys::pt_error_code_pte_no_enable => Self::NotEnabled,
            _ => Self::Other(code),
        }
    }
}

/// The state after a step that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// An event is to be asked for before the next step.
    pub event_pending: bool,
    /// No more packets. There can be more instructions.
    pub end_of_trace: bool,
}

impl Status {
    /// A return value of libipt.
    pub(super) fn of(code: c_int) -> Result<Self, Fault> {
        if code < 0 {
            return Err(Fault::of(code));
        }
        let bits = code.unsigned_abs();
        Ok(Self {
            event_pending: bits & sys::pt_status_flag_pts_event_pending != 0,
            end_of_trace: bits & sys::pt_status_flag_pts_eos != 0,
        })
    }
}
