//! Accesses as lines.

use program::RunAddr;
use program::expression::Reading;
use sketch_render::{StatementRef, watch as render};

use super::modules::ProcessModules;
use super::wanted::Wanted;
use crate::present;
use crate::sources::SourceText;

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
        let bytes = value?.bits.to_le_bytes();
        let shown = usize::try_from(place.len).unwrap_or(bytes.len()).min(bytes.len());
        Some(reading(place.shape.read(bytes.get(..shown)?)))
    };
    let pc = hit.pc.unwrap_or(hit.reported_pc);
    let access = hit.access.map_or("RW", |access| match access.kind {
        program::code::AccessKind::Read => "R",
        program::code::AccessKind::Write => "W",
        program::code::AccessKind::ReadWrite => "RW",
    });
    render::Hit {
        seq: hit.seq,
        time_ns: hit.time_ns,
        tid: hit.tid,
        pc: pc.0,
        statement: statement(pc, modules, sources),
        access,
        atomic: hit.access.is_some_and(|access| access.atomic),
        addr: hit.addr.0,
        variable: place.and_then(|place| place.name.clone()),
        value: value(hit.value),
        before: value(hit.before).filter(|_| access != "R"),
        unordered: hit.order_uncertain,
    }
}

fn statement(pc: RunAddr, modules: &ProcessModules<'_>, sources: &SourceText) -> StatementRef {
    match modules.find(pc) {
        Some((program, pc)) => present::statement_at(program, pc, sources),
        None => StatementRef {
            function: "??".to_owned(),
            file: None,
            line: None,
            pc: pc.0,
            text: None,
            accesses: Vec::new(),
        },
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
