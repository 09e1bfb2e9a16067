//! Statements: what people see of machine code.

use std::sync::Arc;

use crate::addr::Pc;

/// A source line of one function (an inlined function counts as its own), or, where no line is known, an
/// instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The function's name as people write it.
    pub function: Arc<str>,
    /// The source file, as the compiler recorded it.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The instruction that this was found at.
    pub pc: Pc,
}

/// What makes two statements the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementKey {
    function: Arc<str>,
    position: Position,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Position {
    Line(Option<Arc<str>>, u32),
    Instruction(Pc),
}

impl Statement {
    /// Its identity: function, file and line; without line information, the instruction.
    #[must_use]
    pub fn key(&self) -> StatementKey {
        let position = match self.line {
            Some(line) => Position::Line(self.file.clone(), line),
            None => Position::Instruction(self.pc),
        };
        StatementKey {
            function: Arc::clone(&self.function),
            position,
        }
    }
}

/// Whom an instruction belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// A statement of the program.
    Statement(Statement),
    /// Nobody wrote it: prologues, spills, code without a line.
    CompilerMade,
    /// A library's code.
    Library,
}

/// Whether a source path belongs to a compiler, a standard library or a system header: code that people
/// do not look into for their own bugs.
#[must_use]
pub fn is_library_path(path: &str) -> bool {
    const PREFIXES: [&str; 7] = [
        "/usr/include/",
        "/usr/lib/",
        "/usr/local/include/",
        "/rustc/",
        // What Rust's standard library is linked with.
        "/rust/deps/",
        // Where distributions keep the sources of what their compilers link statically. Nothing else below
        // `/usr/src`: programs are built there too, above all in containers.
        "/usr/src/debug/gcc",
        "/usr/src/debug/glibc",
    ];
    // Rust's standard library when it was compiled with its sources at hand, and headers of a toolchain that
    // was installed elsewhere.
    const INNER: [&str; 4] = [
        "/rustlib/src/rust/library/",
        "/include/c++/",
        "/lib/gcc/",
        "/lib/clang/",
    ];
    PREFIXES.iter().any(|prefix| path.starts_with(prefix)) || INNER.iter().any(|inner| path.contains(inner))
}

#[cfg(test)]
mod tests {
    use super::is_library_path;

    #[test]
    fn programs_are_built_in_places_near_libraries() {
        for library in [
            "/usr/include/c++/12/bits/stl_vector.h",
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/option.rs",
            "/usr/src/debug/glibc-2.38-1.x86_64/nptl/pthread_create.c",
            "/opt/gcc-14/include/c++/14/thread",
        ] {
            assert!(is_library_path(library), "{library}");
        }
        for own in [
            "/usr/src/myapp/src/main.rs",
            "/usr/src/debug/redis-7.2.4/src/server.c",
            "/usr/local/src/queue.c",
            "src/main.rs",
        ] {
            assert!(!is_library_path(own), "{own}");
        }
    }
}
