//! Whether any of some code comes from certain files, found out without naming its functions.

use super::Sources;
use super::functions::Function;
use super::units::{Unit, UnitId};
use crate::addr::LinkAddr;

impl<'a> Sources<'a> {
    /// Whether a frame at one of some addresses may be in a file that is wanted. False is certain; true is not,
    /// where something was inlined: [`Sources::frames_at`] knows exactly, but takes longer.
    pub fn may_be_in_file(
        &self,
        addrs: impl Iterator<Item = LinkAddr>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> bool {
        let mut last: Option<&Function> = None;
        // Rows of one file come in runs.
        let mut ruled_out: Option<(UnitId, u32)> = None;
        for addr in addrs {
            let Some((unit, function)) = self.find_function(addr) else {
                let frames = self.frames_at(addr);
                if frames
                    .iter()
                    .any(|frame| frame.file.as_deref().is_some_and(&is_wanted))
                {
                    return true;
                }
                continue;
            };
            if !last.is_some_and(|last| std::ptr::eq(last, function)) {
                if self.is_called_from(unit, function, &is_wanted) {
                    return true;
                }
                last = Some(function);
            }
            let row = self.lines_of(unit).and_then(|(_, table)| table.row_at(addr));
            let Some(file) = row.map(|row| row.file) else {
                continue;
            };
            if ruled_out != Some((unit.id, file)) {
                if self
                    .file_path(unit, file.into())
                    .is_some_and(|file| is_wanted(&file))
                {
                    return true;
                }
                ruled_out = Some((unit.id, file));
            }
        }
        false
    }

    /// Whether a call that was inlined into a function stands in a file that is wanted.
    fn is_called_from(&self, unit: &Unit<'a>, function: &Function, is_wanted: impl Fn(&str) -> bool) -> bool {
        let calls = self.body_of(unit, function).inlined.iter();
        calls
            .filter_map(|inlined| self.file_path(unit, inlined.call_file))
            .any(|file| is_wanted(&file))
    }
}
