//! Tracing and reading other processes, tried.

use std::error::Error;

use super::subject::{Relation, Subject};
use super::tries::{Tried, in_full, works};
use crate::process::Memory;
use crate::ptrace::Tracer;

pub(super) fn ptrace(subject: &Subject) -> Tried {
    attach(subject)?;
    works("a child was attached to and let go")
}

pub(super) fn attach_stranger() -> Tried {
    let stranger = Subject::start(Relation::Stranger)?;
    attach(&stranger)?;
    works("a process of the same user, not a child, was attached to and let go")
}

/// Attaches and lets go: by ending the thread that attached.
fn attach(subject: &Subject) -> Result<(), Box<dyn Error>> {
    let pid = subject.pid();
    let attached = std::thread::scope(|scope| {
        let tracer = scope.spawn(|| match Tracer::attach(pid, false) {
            Ok(_) => Ok(()),
            Err(error) => Err(in_full(&error)),
        });
        tracer
            .join()
            .unwrap_or_else(|_| Err("the attempt ended early".to_owned()))
    });
    attached?;
    subject.write()?;
    Ok(())
}

pub(super) fn memory(subject: &Subject) -> Tried {
    let mut word = [0; 8];
    match Memory::of(subject.pid()).read_some(Subject::watched(), &mut word)? {
        8 => works("a child's memory was read"),
        count => Err(format!("{count} of 8 bytes were read").into()),
    }
}
