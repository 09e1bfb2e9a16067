//! Stack-trace text of real programs, read from fixtures.
//!
//! The fixtures were printed by gdb 13, lldb 14, elfutils 0.188, gcc 12's and clang 14's sanitizers, rustc 1.95, glibc 2.36 and
//! perf 6.1, except the coredumpctl, memory-map, bpftrace and quoted ones, which follow those tools' formats.

#![allow(clippy::unwrap_used)]

mod debuggers;
mod gdb;
mod robust;
mod rust;
mod sanitizers;
mod several;
mod system;

use std::fmt::Write;
use std::path::PathBuf;

use failure::{Frame, Position, Report, Thread};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/text")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read(name: &str) -> Report {
    failure::text::parse(&fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A frame on one line: address (`!` if exact), symbol, source line, module, `inlined`.
fn line(frame: &Frame) -> String {
    let mut text = frame
        .address
        .map_or_else(|| "-".to_owned(), |address| address.to_string());
    if frame.position == Position::Exact {
        text.push('!');
    }
    if let Some(symbol) = &frame.symbol {
        write!(text, " {}", symbol.name).unwrap();
        if let Some(offset) = symbol.offset {
            write!(text, "+{offset:#x}").unwrap();
        }
    }
    if let Some(location) = &frame.location {
        write!(text, " {}:{}", location.file, location.line).unwrap();
        if let Some(column) = location.column {
            write!(text, ":{column}").unwrap();
        }
    }
    if let Some(module) = &frame.module {
        write!(text, " ({}", module.path).unwrap();
        if let Some(addr) = module.addr {
            write!(text, " {addr}").unwrap();
        }
        if let Some(offset) = module.file_offset {
            write!(text, " at {offset}").unwrap();
        }
        text.push(')');
    }
    if frame.inlined {
        text.push_str(" inlined");
    }
    text
}

fn lines(thread: &Thread) -> Vec<String> {
    thread.frames.iter().map(line).collect()
}

fn symbols(thread: &Thread) -> Vec<&str> {
    let names = thread
        .frames
        .iter()
        .map(|frame| frame.symbol.as_ref().map(|symbol| symbol.name.as_str()));
    names.map(|name| name.unwrap_or("?")).collect()
}

fn failing(report: &Report) -> &Thread {
    &report.threads[report.failing]
}

/// The frame of the failure: the first of the program's own.
fn failing_line(report: &Report) -> String {
    line(&failing(report).frames[failure::frames::failing_frame(report).unwrap()])
}

fn stack_names(report: &Report) -> Vec<&str> {
    report
        .threads
        .iter()
        .map(|thread| thread.name.as_deref().unwrap_or_default())
        .collect()
}
