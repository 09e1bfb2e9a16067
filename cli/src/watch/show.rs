//! Accesses as lines.

use program::expression::Reading;
use program::{Attribution, RunAddr};
use sketch_render::{StatementRef, watch as render};

use super::modules::ProcessModules;
use super::wanted::Wanted;
use crate::present;
use sources::SourceText;

/// What an access looks like to a reader.
pub fn hit(
    hit: &watchpoint::Hit,
    wanted: &[Wanted],
    modules: &ProcessModules<'_>,
    sources: &SourceText,
) -> render::Hit {
    let place = wanted.get(hit.location);
    let value = |value: Option<watchpoint::Value>| {
        let place = place?;
        let bytes = value?.content().bytes();
        let shown = usize::try_from(place.len).unwrap_or(bytes.len()).min(bytes.len());
        Some(reading(place.shape.read(bytes.get(..shown)?)))
    };
    let pc = hit.pc.unwrap_or(hit.reported_pc);
    let access = hit
        .access
        .map_or(render::UNKNOWN_ACCESS, |access| match access.kind {
            program::code::AccessKind::Read => "R",
            program::code::AccessKind::Write => "W",
            program::code::AccessKind::ReadWrite => "RW",
        });
    let (statement, via) = statement(pc, &hit.callers, modules, sources);
    render::Hit {
        seq: hit.seq,
        time_ns: hit.time_ns,
        tid: hit.tid,
        pc: pc.0,
        statement,
        via,
        access,
        atomic: hit.access.is_some_and(|access| access.atomic),
        addr: hit.addr.0,
        place: place.map_or_else(|| hit.addr.to_string(), Wanted::label),
        variable: place.and_then(|place| place.name.clone()),
        value: value(hit.value),
        before: value(hit.before).filter(|_| access != "R"),
        unordered: hit.order_uncertain,
    }
}

/// The statement of the program's own code that made the access, and the library's function that made it on
/// its behalf, if one did and the stack shows for whom.
fn statement(
    pc: RunAddr,
    callers: &[RunAddr],
    modules: &ProcessModules<'_>,
    sources: &SourceText,
) -> (StatementRef, Option<String>) {
    let own = |at: RunAddr| {
        let (program, at) = modules.find(at)?;
        let attribution = program.statement_at(program.instruction_at(at).unwrap_or(at));
        let is_own = !matches!(attribution, Attribution::Library);
        is_own.then(|| present::statement_at(program, at, sources))
    };
    let here = || {
        let (program, at) = modules.find(pc)?;
        Some(present::statement_at(program, at, sources))
    };
    if let Some(statement) = own(pc) {
        return (statement, None);
    }
    let called = callers.iter().find_map(|back| own(back.offset(-1)));
    match (called, here()) {
        (Some(statement), here) => (statement, here.map(|here| here.function)),
        (None, Some(here)) => (here, None),
        (None, None) => {
            let unknown = StatementRef {
                function: "??".to_owned(),
                file: None,
                line: None,
                pc: pc.0,
                text: None,
                accesses: Vec::new(),
            };
            (unknown, None)
        }
    }
}

fn reading(reading: Reading) -> render::Value {
    match reading {
        Reading::Integer(number) => render::Value::Integer(number),
        Reading::Float(number) => render::Value::Float(number),
        Reading::Pointer(addr) => render::Value::Pointer(addr),
        Reading::Named(number, name) => render::Value::Named(number, name),
        Reading::Bytes(bytes) => render::Value::Bytes(bytes),
    }
}
