//! Processes that we trace: launched or attached, their stops, registers and signals.
//!
//! [`Tracer::launch`] and [`Tracer::attach`] begin, [`Tracer::wait`] tells what happens, [`Tracer::resume`] goes
//! on. Everything goes through PTRACE_SEIZE: a stop is told apart from a signal, job control works as without
//! us, and attaching stops nobody. The requests are made through `libc`, not `nix`: its `waitpid` knows no
//! real-time signals and loses the stop of a thread that gets one.
//!
//! Tracing has one effect that cannot be avoided: a signal that the target ignores still wakes it, for us to
//! look at, so that a call such as `epoll_wait` returns EINTR where it would have gone on waiting.

mod alarm;
mod attach;
mod debug_registers;
mod detach;
mod error;
mod events;
mod farewell;
mod hold;
mod inherited;
mod launch;
mod launched;
mod own_thread;
mod registers;
mod request;
mod restart;
mod siginfo;
mod spawn;
mod stop;
mod tracer;

pub use attach::check_target;
pub use debug_registers::{DebugAccess, DebugLength, DebugSlot, DebugWatch};
pub use error::{AttachError, LaunchError, TraceError};
pub use launch::{Launch, Pipes, Stream};
pub use own_thread::on_own_thread;
pub use siginfo::{PerfTrap, SigInfo};
pub use stop::{End, Stop, What};
pub use tracer::{Attached, Launched, Resume, Tracer};
