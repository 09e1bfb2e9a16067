//! A failure as it was reported, before it is matched with binaries.

use program::{BuildId, FileOffset, LinkAddr, RunAddr};
use serde::{Deserialize, Serialize};

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A fatal signal raised by the processor or sent by somebody: SIGSEGV, SIGBUS, SIGFPE, SIGILL, …
    Signal,
    /// A failed assertion (`assert`, `__glibcxx_assert`, `debug_assert!` and the like).
    Assertion,
    /// The program (or its runtime) gave up: abort, heap corruption found, uncaught exception, panic.
    Abort,
    /// Threads wait for something that does not come.
    Hang,
    /// An unwanted exit status.
    ExitStatus,
    /// Only an oracle outside the program saw it (a data race report, wrong output).
    Oracle,
}

/// A POSIX signal by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signal(pub i32);

/// Which format the report came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// A process that was watched until it failed.
    Live,
    /// An ELF core dump.
    Core,
    /// gdb's `bt` or `thread apply all bt`.
    Gdb,
    /// lldb's `bt` or `bt all`.
    Lldb,
    /// `eu-stack` of elfutils.
    EuStack,
    /// `coredumpctl info` or systemd-coredump's journal entry.
    Coredumpctl,
    /// A Rust panic message with its backtrace.
    RustPanic,
    /// AddressSanitizer (and LeakSanitizer, UndefinedBehaviorSanitizer: the same frame format).
    AddressSanitizer,
    /// ThreadSanitizer.
    ThreadSanitizer,
    /// glibc's abort message with a `backtrace_symbols` listing.
    Glibc,
    /// `symbol+0xoff (module)` lines as perf and eBPF tools print them.
    Perf,
}

/// A failure as reported: kind, message, and a stack for each thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which format it came in.
    pub source: Source,
    /// What kind of failure.
    pub kind: Kind,
    /// The signal that ended the program, if one did.
    pub signal: Option<Signal>,
    /// What the program or its runtime said (`double free or corruption (fasttop)`, the assertion's text).
    pub message: Option<String>,
    /// By what the failure was seen from outside, where no stack shows it.
    #[serde(default)]
    pub sign: Option<Sign>,
    /// The data address that a fault was about.
    pub fault_address: Option<RunAddr>,
    /// The program's name or path, where the report names it.
    pub program: Option<String>,
    /// The build-id of the program's executable, where the report gives it.
    pub build_id: Option<BuildId>,
    /// The threads, in the report's order.
    pub threads: Vec<Thread>,
    /// Index into `threads` of the one that failed.
    pub failing: usize,
    /// What was strange or missing in the input, a line each, for people to read.
    pub notes: Vec<String>,
}

/// What somebody outside the program saw of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sign {
    /// The exit status.
    Status(i32),
    /// A line of output.
    Output(String),
}

/// One thread's stack.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thread {
    /// The kernel's thread id, if told; otherwise the report's own number for it.
    pub id: Option<u64>,
    /// The thread's name, or what the report calls this stack ("previous write by thread T1").
    pub name: Option<String>,
    /// Innermost frame first.
    pub frames: Vec<Frame>,
    /// What it waits for, if that is another thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants: Option<Wanted>,
}

/// What a thread waits for, for as long as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// A lock of the C library.
    Lock {
        /// Where it is.
        at: RunAddr,
        /// The thread that it says it is held by.
        holder: Option<u64>,
    },
    /// The end of a thread.
    End {
        /// Which one.
        of: u64,
    },
    /// That a word of memory changes: a lock of another library, a condition, or something else.
    Word {
        /// Where it is.
        at: RunAddr,
    },
}

/// One frame, with whatever the report says about it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Frame {
    /// The run-time address.
    pub address: Option<RunAddr>,
    /// The file that the code is in.
    pub module: Option<ModuleRef>,
    /// The symbol that the report names.
    pub symbol: Option<SymbolRef>,
    /// The source line that the report names.
    pub location: Option<Location>,
    /// Whether `address` is the instruction itself or the one after a call.
    pub position: Position,
    /// The report marks this frame as inlined into the next one.
    pub inlined: bool,
    /// How the frame was found.
    pub origin: FrameOrigin,
}

/// A file with code, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModuleRef {
    /// Path or name.
    pub path: String,
    /// Address inside the module as linked (what `addr2line` takes), if the report gives it.
    pub addr: Option<LinkAddr>,
    /// Position in the file, where the report gives that instead (the kernel, perf); the file's segments
    /// turn it into a link-time address.
    pub file_offset: Option<FileOffset>,
    /// Position in a mapping of its code, where the report gives just that (older kernels).
    #[serde(default)]
    pub in_code: Option<InCode>,
    /// Its build-id, if the report gives it.
    pub build_id: Option<BuildId>,
}

/// A position in a mapping of a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InCode {
    /// Bytes from the start of the mapping.
    pub into: u64,
    /// The length of the mapping. A file with several pieces of code has them told apart by it.
    pub length: u64,
}

/// A symbol, perhaps with the offset into it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SymbolRef {
    /// As printed: mangled or not.
    pub name: String,
    /// Bytes from the symbol's start.
    pub offset: Option<u64>,
}

/// A source position.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Location {
    /// As printed: absolute, relative or a base name.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// 1-based, if told.
    pub column: Option<u32>,
}

/// What a frame's address points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Position {
    /// The instruction that was executing (innermost frames, frames interrupted by a signal).
    Exact,
    /// The instruction after the call.
    #[default]
    Return,
}

/// How a frame was found; where a line of a report comes from is part of what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FrameOrigin {
    /// The report's text says so.
    #[default]
    Text,
    /// The thread's registers.
    Context,
    /// Call-frame information.
    Cfi,
    /// The chain of frame pointers.
    FramePointer,
    /// A signal frame that the kernel pushed.
    SignalFrame,
    /// The frame is gone: the function left by a jump, which the code around it shows.
    TailCall,
    /// The frame is gone: the function returned, and the process ended with what it returned.
    Returned,
    /// The frame is gone: the code has the text that was printed.
    Printed,
    /// A guess from stack contents.
    Scan,
}
