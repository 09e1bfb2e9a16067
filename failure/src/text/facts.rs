//! What the text says about the failure apart from stacks.

use program::{BuildId, RunAddr};

use super::scan::base_name;
use crate::report::{Kind, Location, Signal, Source};

/// How the text points at the thread that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadHint {
    /// The kernel's thread id.
    Tid(u64),
    /// The report's own number.
    Number(u64),
}

/// A place that a message names: `file.c:12: check: Assertion …`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub source: Source,
    pub function: Option<String>,
    pub location: Location,
}

/// A range of the process's memory with the file mapped there, from a memory map.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub path: String,
}

/// Facts in the order of the text; later ones correct earlier ones only before the first frame.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub signal: Option<Signal>,
    pub fault_address: Option<RunAddr>,
    pub program: Option<String>,
    pub build_ids: Vec<(String, BuildId)>,
    pub mappings: Vec<Mapping>,
    /// The thread that the report says received the signal.
    pub failing: Option<ThreadHint>,
    /// The thread that the debugger looked at.
    pub current: Option<ThreadHint>,
    /// A core is being looked at: gdb numbers the failing thread 1.
    pub core: bool,
    pub notes: Vec<String>,
    message: Option<Message>,
    /// Messages read from arguments of frames: only used when no line says it.
    from_frame: Option<(Kind, String)>,
}

#[derive(Debug)]
struct Message {
    kind: Kind,
    text: String,
    place: Option<Place>,
    settled: bool,
}

/// More of a message is never shown.
const LONGEST_MESSAGE: usize = 4096;
/// More modules or mappings than any process has.
const MOST_MODULES: usize = 65_536;

impl Facts {
    /// A line that says why the program gave up. `settled` once frames were seen: what follows a stack may
    /// belong to another failure.
    pub fn say(&mut self, kind: Kind, text: &str, place: Option<Place>, after_frames: bool) {
        let settled = self
            .message
            .as_ref()
            .is_some_and(|message| message.settled || after_frames);
        if !settled {
            let text = bounded(text);
            self.message = Some(Message {
                kind,
                text,
                place,
                settled: after_frames,
            });
        }
    }

    /// Adds a line to the message said last (`what():` of an exception).
    pub fn say_more(&mut self, text: &str) {
        if let Some(message) = self.message.as_mut().filter(|message| !message.settled) {
            message.text = bounded(&format!("{}: {text}", message.text));
        }
    }

    /// A message found in the arguments of a frame.
    pub fn say_from_frame(&mut self, kind: Kind, text: &str) {
        // The outermost such frame has the original arguments, and comes last.
        if !text.is_empty() {
            self.from_frame = Some((kind, bounded(text)));
        }
    }

    /// The message and the kind of failure it stands for.
    pub fn message(&self) -> Option<(Kind, &str)> {
        let said = self
            .message
            .as_ref()
            .map(|message| (message.kind, message.text.as_str()));
        said.or_else(|| {
            self.from_frame
                .as_ref()
                .map(|(kind, text)| (*kind, text.as_str()))
        })
    }

    /// The place that the message names.
    pub fn place(&self) -> Option<&Place> {
        self.message.as_ref()?.place.as_ref()
    }

    /// Notes the build-id of a module; the first mention counts.
    pub fn build_id(&mut self, module: &str, id: BuildId) {
        if self.build_ids.len() < MOST_MODULES {
            self.build_ids.push((base_name(module).to_owned(), id));
        }
    }

    /// Notes a line of a memory map.
    pub fn mapping(&mut self, mapping: Mapping) {
        if self.mappings.len() < MOST_MODULES {
            self.mappings.push(mapping);
        }
    }

    /// Notes something for people to read, within bounds.
    pub fn note(&mut self, note: String) {
        if self.notes.len() < 64 && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The text cut to what a message may be, at a character boundary.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_MESSAGE);
    text.get(..end).unwrap_or_default().trim().to_owned()
}
