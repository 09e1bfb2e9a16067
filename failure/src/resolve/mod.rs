//! Matching a report with the program that it is about.
//!
//! A report names code in many ways: by an address in a process that is gone, by an offset into a file, by a
//! symbol, by a source line. [`resolve`] turns each frame into a place in the program, where one is known,
//! and says which frames are the program's own.

mod frame;
mod gone;
mod hang;
mod lines;
mod place;
mod printed;
mod returned;
mod tail;

use program::source::SourceFrame;
use program::{ModuleId, Pc, Program};
use thiserror::Error;

use crate::frames::{self, Part, RuntimeRole, innermost_own};
use crate::report::{FrameOrigin, Kind, Position, Report, Signal, Source, Wanted};
use place::Places;

pub use hang::{Waiting, waiting};
pub use place::recorded_path;

/// The file that the user gave; libraries come after it.
const EXECUTABLE: ModuleId = ModuleId(0);

/// A report and a program that do not belong together.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ResolveError {
    /// The build-ids differ.
    #[error(
        "the report is about build {reported} of {program}, but {file} is build {given}: \
         give the binary that failed"
    )]
    OtherBuild {
        /// The program, as the report names it.
        program: String,
        /// The build-id in the report.
        reported: String,
        /// The file that was given.
        file: String,
        /// Its build-id.
        given: String,
    },
    /// No frame has anything to do with the program.
    #[error(
        "none of the report's {frames} frames is in {file}{}: is it the right binary?",
        program.as_ref().map_or(String::new(), |program| format!(" (the report is about {program})"))
    )]
    NotInProgram {
        /// How many frames there are.
        frames: usize,
        /// The file that was given.
        file: String,
        /// The program, as the report names it.
        program: Option<String>,
    },
    /// The report is about the program, but no frame says where in it.
    #[error(
        "none of the report's {frames} frames can be found in {file}, although it is about that program: they are \
         of libraries, or addresses of a run that nothing tells the place of; give the core, or the stacks of \
         all threads with symbols"
    )]
    NoPlaces {
        /// How many frames there are.
        frames: usize,
        /// The file that was given.
        file: String,
    },
}

/// A failure in terms of the program.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind of failure, now that the functions on the stack are known.
    pub kind: Kind,
    /// The signal.
    pub signal: Option<Signal>,
    /// What the program or its runtime said.
    pub message: Option<String>,
    /// The data address that a fault was about.
    pub fault_address: Option<program::RunAddr>,
    /// The threads, as in the report.
    pub threads: Vec<ResolvedThread>,
    /// Index of the thread that failed.
    pub failing: usize,
    /// Index, in the failing thread, of the innermost frame in the program's own code.
    pub failing_frame: Option<usize>,
    /// What a reader must know to judge it.
    pub notes: Vec<String>,
}

/// A thread's stack in terms of the program.
#[derive(Clone, Debug)]
pub struct ResolvedThread {
    /// The kernel's thread id, or the report's number for it.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Innermost first.
    pub frames: Vec<ResolvedFrame>,
}

/// A frame in terms of the program.
#[derive(Clone, Debug)]
pub struct ResolvedFrame {
    /// The place: the instruction itself, or the one after the call, as `position` says. `None` for code
    /// that is in no module of the program.
    pub pc: Option<Pc>,
    /// Whether `pc` is the instruction or the one after the call.
    pub position: Position,
    /// Only the line is known: `pc` is one of its instructions, not necessarily the one.
    pub line_only: bool,
    /// The source functions there, innermost inlined one first; from the report's own words where the
    /// program has nothing to say.
    pub sources: Vec<SourceFrame>,
    /// The file that the code is in, as the report names it.
    pub module: Option<String>,
    /// The run-time address, as reported.
    pub address: Option<program::RunAddr>,
    /// What the frame is for, if it is not the program's own code.
    pub role: Option<RuntimeRole>,
    /// Code that the program's people wrote.
    pub own: bool,
    /// How the frame was found.
    pub origin: FrameOrigin,
}

impl ResolvedFrame {
    /// An address inside the instruction that was executing: for a return address, inside the call.
    #[must_use]
    pub fn executing(&self) -> Option<Pc> {
        let pc = self.pc?;
        match self.position {
            Position::Exact => Some(pc),
            Position::Return => Some(Pc {
                addr: pc.addr.offset(-1),
                ..pc
            }),
        }
    }
}

/// Matches a report with a program.
///
/// # Errors
/// When the report is about another build, or about another program altogether.
pub fn resolve(report: &Report, program: &Program<'_>) -> Result<Failure, ResolveError> {
    check_build(report, program)?;
    let places = Places::new(program, report);
    let mut threads: Vec<ResolvedThread> = report
        .threads
        .iter()
        .map(|thread| ResolvedThread {
            id: thread.id,
            name: thread.name.clone(),
            frames: tail::restore(program, frame::resolve_all(&places, program, &thread.frames)),
        })
        .collect();
    let frames = threads.iter().map(|thread| thread.frames.len()).sum();
    if threads
        .iter()
        .flat_map(|thread| &thread.frames)
        .all(|frame| frame.pc.is_none_or(|pc| pc.module != EXECUTABLE))
    {
        let file = executable_name(program);
        let named = report.program.as_deref();
        if named.is_some_and(|named| place::same_file(named, &file)) {
            return Err(ResolveError::NoPlaces { frames, file });
        }
        return Err(ResolveError::NotInProgram {
            frames,
            file,
            program: report.program.clone(),
        });
    }
    let failing = match report.kind {
        Kind::Hang => {
            let awaited = report.threads.iter().filter_map(|thread| match thread.wants {
                Some(Wanted::End { of }) => Some(of),
                _ => None,
            });
            hang::most_telling(&threads, &awaited.collect::<Vec<_>>())
        }
        _ => report.failing.min(threads.len().saturating_sub(1)),
    };
    let mut notes = report.notes.clone();
    let failing_frame = threads.get_mut(failing).and_then(|thread| {
        let frames = &mut thread.frames;
        gone::printer(program, report, frames, &mut notes)
            .or_else(|| failing_frame(frames, report.source))
            .or_else(|| gone::returner(program, report, frames, &mut notes))
    });
    notes.extend(missing_debug_information(program));
    Ok(Failure {
        kind: kind(report, threads.get(failing), failing_frame),
        signal: report.signal,
        message: report.message.clone(),
        fault_address: report.fault_address,
        threads,
        failing,
        failing_frame,
        notes,
    })
}

/// Whether the failing thread was in the program's own code: where a process ended because `main` returned, or was unwound,
/// it was not.
#[must_use]
pub fn is_in_own_code(report: &Report, program: &Program<'_>) -> bool {
    let places = Places::new(program, report);
    report.threads.get(report.failing).is_some_and(|thread| {
        let frames = frame::resolve_all(&places, program, &thread.frames);
        failing_frame(&frames, report.source).is_some()
    })
}

fn executable_name(program: &Program<'_>) -> String {
    program
        .modules()
        .next()
        .map_or_else(String::new, |(_, module)| module.name().to_owned())
}

fn check_build(report: &Report, program: &Program<'_>) -> Result<(), ResolveError> {
    let Some((_, executable)) = program.modules().next() else {
        return Ok(());
    };
    let Some(given) = executable.elf().build_id() else {
        return Ok(());
    };
    let recorded = place::recorded_executable(program, report);
    let frames = report.threads.iter().flat_map(|thread| &thread.frames);
    let of_frames = frames.filter_map(|frame| {
        let module = frame.module.as_ref()?;
        module
            .build_id
            .as_ref()
            .filter(|_| Some(module.path.as_str()) == recorded)
    });
    let about_this = recorded.is_none() || recorded == report.program.as_deref();
    let of_program = report.build_id.as_ref().filter(|_| about_this);
    match of_program
        .into_iter()
        .chain(of_frames)
        .find(|&reported| *reported != given)
    {
        None => Ok(()),
        Some(reported) => Err(ResolveError::OtherBuild {
            program: report.program.clone().unwrap_or_else(|| executable_name(program)),
            reported: reported.to_string(),
            file: executable.name().to_owned(),
            given: given.to_string(),
        }),
    }
}

/// The innermost own frame of the failure itself: where a signal handler reported it, one below the handler.
fn failing_frame(frames: &[ResolvedFrame], source: Source) -> Option<usize> {
    let parts: Vec<_> = frames
        .iter()
        .map(|frame| Part {
            role: frame.role,
            interrupted: frame.origin == FrameOrigin::SignalFrame,
            own: frame.own,
        })
        .collect();
    innermost_own(&parts, source)
}

/// What the functions between the failing frame and the end of the process say about the failure.
fn kind(report: &Report, thread: Option<&ResolvedThread>, failing_frame: Option<usize>) -> Kind {
    let inner = thread.map_or(&[][..], |thread| {
        thread
            .frames
            .get(..failing_frame.unwrap_or(thread.frames.len()))
            .unwrap_or_default()
    });
    let has = |role| inner.iter().any(|frame| frame.role == Some(role));
    match report.kind {
        Kind::Abort | Kind::Signal if has(RuntimeRole::Assertion) || has(RuntimeRole::Panic) => {
            Kind::Assertion
        }
        kind => kind,
    }
}

fn missing_debug_information(program: &Program<'_>) -> Vec<String> {
    let without = program
        .modules()
        .filter(|(_, module)| !module.is_library() && !module.has_debug_information());
    without
        .map(|(_, module)| {
            format!(
                "{} has no debug information: statements are single instructions \
                 (install its debug package, or give --debug-dir)",
                module.name()
            )
        })
        .collect()
}

/// What a frame is for, if it is not the program's own code.
pub(crate) fn role_of(frame: &crate::report::Frame, name: Option<&str>) -> Option<RuntimeRole> {
    let reported = frames::role(frame);
    match reported {
        // A core's frame has no symbol: that it is in the C library is reported, that it is `abort` is not.
        None | Some(RuntimeRole::Library) => name.and_then(frames::is_runtime).or(reported),
        Some(_) => reported,
    }
}
