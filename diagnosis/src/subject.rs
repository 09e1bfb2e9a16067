//! What a sketch is of: the program and its failure, as people read them.

use failure::{Failure, FrameOrigin, Kind, ResolvedFrame};
use program::source::SourceFrame;
use program::{ModuleId, Program};

use crate::run::{Catalogue, StatementId};
use crate::sketch::{self, Frame, ProgramRef, StatementRef};

/// The program.
pub(crate) fn program(program: &Program<'_>) -> ProgramRef {
    let executable = program.module(ModuleId(0));
    ProgramRef {
        name: executable.map_or_else(String::new, |module| module.name().to_owned()),
        build_id: executable
            .and_then(|module| module.elf().build_id())
            .map(|id| id.to_string()),
    }
}

/// The failure.
pub(crate) fn failure(failure: &Failure, failing: StatementId, catalogue: &Catalogue) -> sketch::Failure {
    sketch::Failure {
        kind: kind(failure.kind).to_owned(),
        signal: failure.signal.map(|signal| signal.to_string()),
        message: failure.message.clone(),
        fault_address: failure.fault_address.map(|addr| addr.0),
        statement: catalogue
            .statements
            .get(failing.0 as usize)
            .map(|info| StatementRef {
                function: info.function.to_string(),
                file: info.file.as_deref().map(str::to_owned),
                line: info.line,
                pc: info.pc,
                ..StatementRef::default()
            }),
        stacks: failure
            .threads
            .iter()
            .map(|thread| thread.frames.iter().flat_map(frames).collect())
            .collect(),
    }
}

/// The name of a kind of failure in the contract.
#[must_use]
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Signal => "signal",
        Kind::Assertion => "assertion",
        Kind::Abort => "abort",
        Kind::Hang => "hang",
        Kind::ExitStatus => "exit-status",
        Kind::Oracle => "oracle",
    }
}

/// A frame and the functions that were inlined at its place.
fn frames(frame: &ResolvedFrame) -> Vec<Frame> {
    let unknown = [SourceFrame::default()];
    let found: &[SourceFrame] = if frame.sources.is_empty() {
        &unknown
    } else {
        &frame.sources
    };
    found.iter().map(|source| one(frame, source)).collect()
}

fn one(frame: &ResolvedFrame, source: &SourceFrame) -> Frame {
    let pc = frame.executing().map(|pc| pc.addr.0);
    Frame {
        statement: StatementRef {
            function: source.function.as_deref().unwrap_or("??").to_owned(),
            file: source.file.as_deref().map(str::to_owned),
            line: Some(source.line).filter(|&line| line > 0),
            pc: pc.or(frame.address.map(|addr| addr.0)).unwrap_or(0),
            ..StatementRef::default()
        },
        module: frame.module.clone(),
        inlined: source.inlined,
        own: frame.own,
        origin: Some(origin(frame.origin).to_owned()),
    }
}

fn origin(origin: FrameOrigin) -> &'static str {
    match origin {
        FrameOrigin::Text => "text",
        FrameOrigin::Context => "context",
        FrameOrigin::Cfi => "cfi",
        FrameOrigin::FramePointer => "frame-pointer",
        FrameOrigin::SignalFrame => "signal-frame",
        FrameOrigin::TailCall => "tail-call",
        FrameOrigin::Returned => "returned",
        FrameOrigin::Printed => "printed",
        FrameOrigin::Scan => "scan",
    }
}
