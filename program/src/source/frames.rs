//! From an address to the chain of source functions that it belongs to.

use super::units::{Die, UnitId};
use super::{SourceFrame, Sources};
use crate::addr::LinkAddr;

impl Sources<'_> {
    /// The source functions at an address, the innermost inlined one first. The first frame has the line
    /// of the address itself; each further one has the line of the call that was inlined into it.
    ///
    /// For a return address, ask for the address before it: that is where the call is.
    #[must_use]
    pub fn frames_at(&self, addr: LinkAddr) -> Vec<SourceFrame> {
        let Some((unit, function)) = self.find_function(addr) else {
            return self.line_without_function(addr).into_iter().collect();
        };
        let mut place = self.place(unit.id, addr);
        let body = self.body_of(unit, function);
        let chain: Vec<_> = body.inlined_at(addr).collect();
        let mut frames = Vec::with_capacity(chain.len() + 1);
        for (_, inlined) in chain.into_iter().rev() {
            let die = Die {
                unit: unit.id,
                offset: inlined.die,
            };
            let naming = inlined.naming.get_or_init(|| self.naming(die));
            let call = SourceFrame {
                file: self.file_path(unit, inlined.call_file),
                line: inlined.call_line,
                column: inlined.call_column,
                ..SourceFrame::default()
            };
            frames.push(SourceFrame {
                function: naming.name.clone(),
                linkage_name: naming.linkage_name.clone(),
                decl_line: naming.decl_line,
                implicit: naming.implicit,
                inlined: true,
                ..std::mem::replace(&mut place, call)
            });
        }
        let naming = self.naming_of(unit, function);
        frames.push(SourceFrame {
            function: naming.name.clone(),
            linkage_name: naming.linkage_name.clone(),
            decl_line: naming.decl_line,
            implicit: naming.implicit,
            ..place
        });
        frames
    }

    /// File and line of an address, in a frame without a function.
    fn place(&self, unit: UnitId, addr: LinkAddr) -> SourceFrame {
        let place = || {
            let (unit, table) = self.lines_of(self.unit(unit)?)?;
            let row = table.row_at(addr)?;
            Some(SourceFrame {
                file: self.file_path(unit, row.file.into()),
                line: row.line,
                column: row.column,
                ..SourceFrame::default()
            })
        };
        place().unwrap_or_default()
    }

    /// Assembly has lines but no functions.
    fn line_without_function(&self, addr: LinkAddr) -> Option<SourceFrame> {
        let units = self.units_at(addr).into_iter();
        let places = units.map(|index| self.place(UnitId::Main(index), addr));
        places.into_iter().find(|place| place.file.is_some())
    }
}
