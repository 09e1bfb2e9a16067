//! The answers, as plain data.

use std::sync::Arc;

use thiserror::Error;

use super::units::Die;
use crate::addr::{LinkAddr, LinkRange};

/// Where the debug information of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugStatus {
    /// In the file itself.
    InFile,
    /// In a separate file of the same build.
    Separate {
        /// What led there: the build-id or the debug link.
        how: String,
    },
    /// Nowhere that was looked at.
    Missing {
        /// The places that were looked at.
        tried: Vec<String>,
    },
}

/// A source function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// The readable name with its namespaces, without parameters: `ns::Queue<int>::pop`. `None` when the
    /// address has a line but no function (assembly).
    pub function: Option<Arc<str>>,
    /// The symbol, when it differs from the name.
    pub linkage_name: Option<Arc<str>>,
    /// The source file.
    pub file: Option<Arc<str>>,
    /// The line; 0 for code that belongs to no line.
    pub line: u32,
    /// The column; 0 when unknown.
    pub column: u16,
    /// Whether this function was inlined into the next frame's.
    pub inlined: bool,
    /// The line on which the function is declared; 0 when unknown.
    pub decl_line: u32,
    /// Whether the compiler made it because nobody wrote one, as C++ has it for destructors and copies.
    pub implicit: bool,
}

/// A row of a line table: instructions that belong to one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// The instructions.
    pub range: LinkRange,
    /// The source file.
    pub file: Arc<str>,
    /// The line; 0 for code that belongs to no line.
    pub line: u32,
    /// The column; 0 when unknown.
    pub column: u16,
    /// Whether the compiler recommends the start as a place for a breakpoint.
    pub is_stmt: bool,
    /// Whether the function's prologue ends here.
    pub prologue_end: bool,
}

/// The code of one source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMatches {
    /// By address, never empty.
    pub matches: Vec<LineMatch>,
}

/// A piece of the code of a source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMatch {
    /// The instructions.
    pub range: LinkRange,
    /// The whole path of the file.
    pub file: Arc<str>,
    /// Whether the compiler recommends the start as a place for a breakpoint.
    pub is_stmt: bool,
}

/// Why a source line has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineError {
    /// There is no debug information at all.
    #[error("the program has no debug information: build it with -g, or install its debug package")]
    NoDebugInformation,
    /// No unit names the file.
    #[error("no source file of the program is called {file}{}", did_you_mean(similar))]
    NoFile {
        /// The file asked for.
        file: String,
        /// Files with a name like it.
        similar: Vec<Arc<str>>,
    },
    /// Several files of that name have code on that line.
    #[error("{file} can be any of {}: give more of the path", files.join(", "))]
    Ambiguous {
        /// The file asked for.
        file: String,
        /// The files.
        files: Vec<Arc<str>>,
    },
    /// The line is a comment, a declaration, or was optimised away.
    #[error("line {line} of {file} has no code{}", nearest_lines(nearest))]
    NoCode {
        /// The file.
        file: Arc<str>,
        /// The line asked for.
        line: u32,
        /// The nearest lines that have code, in ascending order.
        nearest: Vec<u32>,
    },
}

fn did_you_mean(similar: &[Arc<str>]) -> String {
    if similar.is_empty() {
        String::new()
    } else {
        format!(" (did you mean {}?)", similar.join(" or "))
    }
}

fn nearest_lines(nearest: &[u32]) -> String {
    let lines: Vec<_> = nearest.iter().map(u32::to_string).collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!(" (the nearest lines that have: {})", lines.join(", "))
    }
}

/// A function with machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubprogramInfo {
    /// The readable name, as in [`SourceFrame::function`].
    pub name: Option<Arc<str>>,
    /// The symbol, when it differs from the name.
    pub linkage_name: Option<Arc<str>>,
    /// The code; the first range holds the entry unless the compiler moved it.
    pub ranges: Vec<LinkRange>,
    /// The file of the declaration.
    pub decl_file: Option<Arc<str>>,
    /// The line of the declaration; 0 when unknown.
    pub decl_line: u32,
    /// Whether it is declared not to return.
    pub noreturn: bool,
    /// Where its body starts.
    pub prologue_end: Option<LinkAddr>,
    /// What it returns; `None` for nothing, or unknown.
    pub return_type: Option<TypeId>,
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// Its type.
    pub ty: Option<TypeId>,
}

/// A type of the debug information. Plain data: the methods are on the view that
/// [`Sources::ty`](super::Sources::ty) gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(super) Die);

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name; that of a global with its namespaces.
    pub name: Arc<str>,
    /// What it is to its function.
    pub kind: VariableKind,
    /// Its type.
    pub ty: Option<TypeId>,
    /// Where it is.
    pub location: VarLocation,
    /// The number of its function in [`Sources::frames_at`](super::Sources::frames_at); 0 for a global.
    pub frame: usize,
}

/// What a variable is to its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableKind {
    /// It is passed in.
    Parameter,
    /// It lives as long as its block runs.
    Local,
    /// It lives as long as the program or the thread.
    Static,
}

/// Where a variable is at some address. Registers have DWARF's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VarLocation {
    /// In a register.
    Register(u16),
    /// In memory, at a register plus an offset.
    RegisterOffset {
        /// The register.
        register: u16,
        /// The offset.
        offset: i64,
    },
    /// In memory, at the canonical frame address (the stack pointer before the call) plus an offset.
    Cfa(i64),
    /// In memory, at a fixed address.
    Address(LinkAddr),
    /// In the thread's copy of the module's thread-local block, at this offset.
    Tls(u64),
    /// In memory, at a pointer stored somewhere plus an offset.
    Indirect {
        /// Where the pointer is.
        pointer: Box<VarLocation>,
        /// The offset.
        offset: i64,
    },
    /// Nowhere: it is known to have this value.
    Constant(u64),
    /// Nowhere: its value is a register plus an offset.
    RegisterValue {
        /// The register.
        register: u16,
        /// The offset.
        offset: i64,
    },
    /// Nowhere, or somewhere that only a longer computation tells.
    Value,
    /// In several places.
    Pieces(Vec<Piece>),
    /// Optimised away at this address.
    Unavailable,
}

/// A part of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it starts in the variable, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// Where it is.
    pub location: VarLocation,
}
