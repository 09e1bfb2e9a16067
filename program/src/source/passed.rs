//! Going through a section from header to header without keeping it in memory.
//!
//! Whoever maps files gets many pages around each place that is looked at. Of a large program's headers that
//! would be most of the section.

use crate::files::{Files, Reading};

/// Headers that are passed before their part of the section is given back.
const AT_ONCE: u32 = 16;

/// What of a section was passed.
pub(super) struct Passed<'a> {
    files: &'a dyn Files,
    section: &'a [u8],
    from: usize,
    headers: u32,
}

impl<'a> Passed<'a> {
    pub(super) fn new(files: &'a dyn Files, section: &'a [u8]) -> Self {
        Self {
            files,
            section,
            from: 0,
            headers: 0,
        }
    }

    /// Says that a header was reached, and that nothing before it is needed for now.
    pub(super) fn up_to(&mut self, offset: usize) {
        self.headers += 1;
        if self.headers == AT_ONCE {
            let part = self.section.get(self.from..offset).unwrap_or_default();
            self.files.expect(part, Reading::Over);
            self.from = offset;
            self.headers = 0;
        }
    }
}
