//! The source files of a sketch, and what tells them from others of the same name.

use std::collections::BTreeMap;

use failure::{Failure, ResolvedFrame};
use program::{ModuleId, Pc, Program};

use crate::reading::Cataloguer;
use crate::run::StatementId;
use crate::sketch::{Sketch, SourceFile, StatementRef};

/// Files of the statements that a sketch has, as far as there is something to know of them.
pub(super) fn files(
    sketch: &mut Sketch,
    failure: &Failure,
    catalogue: &Cataloguer,
    program: &Program<'_>,
) -> Vec<SourceFile> {
    let mut places: BTreeMap<String, Option<Pc>> = BTreeMap::new();
    sketch.statements_mut(|statement: &mut StatementRef| {
        if let Some(file) = &statement.file {
            places.entry(file.clone()).or_default();
        }
    });
    let mut add = |file: Option<&str>, pc: &dyn Fn() -> Option<Pc>| {
        let place = file.and_then(|file| places.get_mut(file));
        if let Some(place @ None) = place {
            *place = pc();
        }
    };
    for (number, info) in (0..).map(StatementId).zip(&catalogue.catalogue().statements) {
        add(info.file.as_deref(), &|| catalogue.pc_of(number, program));
    }
    for frame in failure.threads.iter().flat_map(|thread| &thread.frames) {
        for source in &frame.sources {
            add(source.file.as_deref(), &|| ResolvedFrame::executing(frame));
        }
    }
    let known = places.into_iter().filter_map(|(file, pc)| {
        let pc = pc?;
        let mut known = SourceFile::of(program, &file, pc);
        // The executable's stands in the sketch already.
        known.build_id = known.build_id.filter(|_| pc.module != ModuleId(0));
        (known.build_id.is_some() || known.md5.is_some()).then_some(known)
    });
    known.collect()
}
