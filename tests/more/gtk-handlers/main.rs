//! A toolkit's signals: widgets keep their handlers in cells, handlers may
//! change the widget, and events come from somebody at the keys.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::rc::{Rc, Weak};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Key(char),
    Activate,
    Focus(bool),
    Close,
}

type Callback = Box<dyn Fn(&Event) -> bool>;

struct Handler {
    id: u32,
    callback: Callback,
}

#[derive(Default)]
struct Signal {
    handlers: RefCell<Vec<Handler>>,
    next_id: Cell<u32>,
    emitted: Cell<u32>,
}

impl Signal {
    fn connect(&self, callback: impl Fn(&Event) -> bool + 'static) -> u32 {
        let id = self.next_id.get() + 1;
        self.next_id.set(id);
        let callback = Box::new(callback);
        self.handlers.borrow_mut().push(Handler { id, callback });
        id
    }

    fn disconnect(&self, id: u32) {
        let mut handlers = self.handlers.borrow_mut(); // @fail
        handlers.retain(|handler| handler.id != id);
    }

    /// Calls the handlers until one has dealt with the event.
    fn emit(&self, event: &Event) -> bool {
        self.emitted.set(self.emitted.get() + 1);
        let handlers = self.handlers.borrow(); // @borrow
        for handler in handlers.iter() {
            if (handler.callback)(event) {
                return true;
            }
        }
        false
    }
}

#[derive(Default)]
struct Entry {
    text: RefCell<String>,
    focused: Cell<bool>,
    changed: Signal,
    completion: Cell<Option<u32>>,
}

impl Entry {
    fn new() -> Rc<Entry> {
        let entry = Rc::new(Entry::default());
        let weak = Rc::downgrade(&entry);
        entry.changed.connect(move |event| edit(&weak, event));
        entry
    }

    /// Offers a completion until a word is taken or the entry is left.
    fn start_completion(self: &Rc<Self>) {
        if self.completion.get().is_some() {
            return;
        }
        let weak = Rc::downgrade(self);
        let id = self.changed.connect(move |event| complete(&weak, event)); // @complete
        self.completion.set(Some(id));
    }

    fn stop_completion(&self) {
        if let Some(id) = self.completion.take() {
            self.changed.disconnect(id); // @disconnect
        }
    }
}

fn edit(entry: &Weak<Entry>, event: &Event) -> bool {
    let Some(entry) = entry.upgrade() else { return false };
    match event {
        Event::Key(c) if c.is_alphabetic() => {
            entry.text.borrow_mut().push(*c);
            true
        }
        Event::Key('\u{8}') => entry.text.borrow_mut().pop().is_some(),
        Event::Focus(focused) => {
            entry.focused.set(*focused);
            false
        }
        _ => false,
    }
}

/// Runs after the editing: what it left over may be meant for the completion.
fn complete(entry: &Weak<Entry>, event: &Event) -> bool {
    let Some(entry) = entry.upgrade() else { return false };
    match event { // @event
        Event::Key('\t') => {
            entry.text.borrow_mut().push_str("ing");
            true
        }
        Event::Activate => {
            entry.stop_completion();
            true
        }
        _ => false,
    }
}

struct Keyboard {
    random: u64,
}

impl Keyboard {
    fn next(&mut self) -> Event {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match (self.random >> 33) % 16 {
            0 | 1 => Event::Key('\t'),
            2 => Event::Key('\u{8}'),
            3 => Event::Activate,
            4 | 5 => Event::Focus(true),
            6 | 7 | 8 => Event::Focus(false),
            9 => Event::Close,
            n => Event::Key((b'a' + n as u8) as char),
        }
    }
}

fn dispatch(entry: &Rc<Entry>, event: Event) {
    entry.changed.emit(&event); // @emit
    match event {
        Event::Focus(true) => entry.start_completion(),
        Event::Focus(false) | Event::Close => entry.stop_completion(),
        _ => (),
    }
}

fn print_entry(entry: &Entry) {
    println!(
        "{:?}, {} handlers, {} events, focused: {}",
        entry.text.borrow(),
        entry.changed.handlers.borrow().len(),
        entry.changed.emitted.get(),
        entry.focused.get()
    );
}

fn main() {
    let entry = Entry::new();
    let mut keyboard = Keyboard {
        random: RandomState::new().build_hasher().finish(),
    };
    for _ in 0..14 {
        let event = keyboard.next();
        dispatch(&entry, event);
        if event == Event::Close {
            break;
        }
    }
    print_entry(&entry);
}
