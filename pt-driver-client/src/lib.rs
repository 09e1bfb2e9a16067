//! Control flow: what a program did, branch by branch, from Intel PT.
//!
//! - [`packet`]: the packets, from and to bytes
//! - [`code`]: the traced code, as blocks
//! - [`config`]: how a trace was recorded: clocks, and the processor's errata
//! - [`flow`]: our own decoder, and what one thread did, in order
//! - [`recorder`]: making traces: Intel PT, or probes that write the same packets
//! - [`reference`]: the same through libipt
//! - [`summary`]: a trace in a few numbers, to compare decoders by
//!
//! Architecture invariant: outside of [`recorder`], bytes in, values out. Nothing here opens a file, and no bytes make
//! anything here panic, run forever or grow beyond what code and trace together justify.

pub mod code;
pub mod config;
pub mod flow;
pub mod packet;
pub mod recorder;
pub mod reference;
pub mod summary;
