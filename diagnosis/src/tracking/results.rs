//! Calls whose results are noted: those that returned the pointer which a crash went through.
//!
//! Who follows a null pointer often has it from a function that says that there is nothing: a search, or an accessor, which unoptimised
//! code calls for every object that there is. What it looks at is touched without end, and mostly for somebody else; what it
//! returned to the one call that matters is one number.

use std::collections::BTreeSet;

use failure::Failure;
use program::code::Target;
use program::{FileOffset, LinkAddr, Pc, Program};
use serde::{Deserialize, Serialize};

use super::path_of;
use crate::reading::{module_named, name_of_result};
use crate::record::{RunRecord, WatchedRecord};

/// Bytes of a result.
const WIDTH: u32 = 8;
/// Calls at most: each is a probe.
const MOST: usize = 4;

/// A call whose result is noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultProbe {
    /// What the record of the run is to say of it.
    pub watched: WatchedRecord,
    /// Where the call returns to, in its file.
    pub returns_to: FileOffset,
}

/// The calls of an inquiry.
#[derive(Debug, Default)]
pub(super) struct Results {
    probes: Vec<ResultProbe>,
    /// Those that return too often.
    hot: BTreeSet<(Option<String>, LinkAddr)>,
}

impl Results {
    pub(super) fn of(failure: &Failure, program: &Program<'_>) -> Self {
        let calls = slicer::pointer::results(failure, program);
        let probes = calls.into_iter().filter_map(|call| probe(call, program));
        Self {
            probes: probes.take(MOST).collect(),
            hot: BTreeSet::new(),
        }
    }

    pub(super) fn learn(&mut self, record: &RunRecord) {
        let given_up = record
            .watched
            .iter()
            .filter(|watched| watched.result && watched.given_up);
        self.hot
            .extend(given_up.map(|watched| (watched.module.clone(), watched.access)));
    }

    pub(super) fn probes(&self) -> Vec<ResultProbe> {
        let is_cold = |probe: &&ResultProbe| {
            let WatchedRecord { module, access, .. } = &probe.watched;
            !self.hot.contains(&(module.clone(), *access))
        };
        self.probes.iter().filter(is_cold).cloned().collect()
    }
}

fn probe(call: Pc, program: &Program<'_>) -> Option<ResultProbe> {
    let module = program.module(call.module)?;
    let flow = module.code().flow(program.function_at(call)?.function);
    let returns_to = flow.instruction(flow.at(call.addr)?)?.next_ip();
    Some(ResultProbe {
        watched: WatchedRecord {
            module: path_of(call.module, program),
            access: call.addr,
            passed: None,
            width: WIDTH,
            within: 0,
            always_at: None,
            fixed: None,
            late: false,
            given_up: false,
            stores: false,
            result: true,
            found: 0,
        },
        returns_to: module.elf().segments().to_file_offset(LinkAddr(returns_to))?,
    })
}

/// What the result of a call is called: as the variable that it is put into, or else as who returned it.
pub(crate) fn name(watched: &WatchedRecord, program: &Program<'_>) -> Option<String> {
    let id = module_named(watched.module.as_deref(), program)?;
    let module = program.module(id)?;
    let call = Pc {
        module: id,
        addr: watched.access,
    };
    if let Some(name) = name_of_result(call, watched.width, program) {
        return Some(name.path);
    }
    let flow = module.code().flow(program.function_at(call)?.function);
    let at = flow.at(call.addr)?;
    let (_, target, _) = flow.calls().find(|(ix, ..)| *ix == at)?;
    let name = match target {
        Target::Function(callee) => {
            let entry = module.code().functions().get(callee)?.entry;
            module.name_of_function_at(entry)?.to_string()
        }
        Target::Import(import) => module.elf().import_name(import)?.to_owned(),
        Target::Unknown(_) | Target::Indirect => return None,
    };
    Some(match name.ends_with(')') {
        true => name,
        false => format!("{name}()"),
    })
}
