//! Where the modules of a plan were, by what perf told around a trace.
//!
//! A look at a process's maps now and then misses what was mapped in between and gone again; perf reports every mapping
//! of code when it is made (PERF_RECORD_MMAP2, also for `mprotect`), and every program that is executed
//! (PERF_RECORD_COMM with PERF_RECORD_MISC_COMM_EXEC, before the mappings of the new program). There is no record of an
//! unmapping: that other code took a module's place shows only when it is mapped.

use program::{ModuleId, Program};
use tracee::perf::{Mapping, Record, Stamped};

use super::place::Known;
use super::recording::Placed;

/// What was mapped while one program ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The modules, each at every place where it was.
    pub modules: Vec<Placed>,
    /// Those of them whose place was taken by other code later. What ran there is not known, for a trace has only
    /// addresses.
    pub replaced: Vec<ModuleId>,
}

/// Where some modules were, by records in order of time: one answer for each program that the process executed.
#[must_use]
pub fn told(program: &Program<'_>, modules: &[ModuleId], records: &[Stamped]) -> Vec<Told> {
    let known = modules.iter().filter_map(|&module| Known::of(program, module));
    read(&known.collect::<Vec<_>>(), records)
}

/// The same for modules that were looked up before.
pub(crate) fn read(known: &[Known], records: &[Stamped]) -> Vec<Told> {
    let mut all = vec![Told::default()];
    for stamped in records {
        match (&stamped.record, all.last_mut()) {
            (Record::Comm { exec: true, .. }, _) => all.push(Told::default()),
            (Record::Mmap(mapping), Some(told)) if mapping.protection & PROT_EXEC != 0 => {
                told.map(known, mapping);
            }
            _ => {}
        }
    }
    all
}

/// Of mmap(2).
const PROT_EXEC: u32 = 4;

impl Told {
    fn map(&mut self, known: &[Known], mapping: &Mapping) {
        let placed = known.iter().find_map(|known| {
            Some(Placed {
                module: known.module,
                bias: known.bias_of(mapping)?,
                build_id: known.build_id.clone(),
            })
        });
        let end = mapping.addr.0.saturating_add(mapping.len);
        for other in self
            .modules
            .iter()
            .filter(|other| Some(*other) != placed.as_ref())
        {
            let code = known.iter().find(|known| known.module == other.module);
            let overlaps = code.is_some_and(|known| known.has_code(other.bias, mapping.addr.0..end));
            if overlaps && !self.replaced.contains(&other.module) {
                self.replaced.push(other.module);
            }
        }
        if let Some(placed) = placed
            && !self.modules.contains(&placed)
        {
            self.modules.push(placed);
        }
    }
}

#[cfg(test)]
mod tests {
    use program::{FileOffset, LinkAddr, RunAddr};
    use tracee::perf::Origin;
    use tracee::{Pid, Tid};

    use super::*;

    fn known() -> Vec<Known> {
        let library = |module, name: &str| {
            Known::made_up(
                ModuleId(module),
                name,
                LinkAddr(0x1040)..LinkAddr(0x2000),
                FileOffset(0x1040),
            )
        };
        vec![library(0, "/bin/app"), library(1, "/lib/liba.so")]
    }

    fn stamped(time: u64, record: Record) -> Stamped {
        let (pid, tid) = (Pid(7), Tid(7));
        let origin = Origin {
            pid,
            tid,
            time,
            cpu: 0,
        };
        Stamped { origin, record }
    }

    fn mapped(time: u64, addr: u64, path: &str, offset: u64, protection: u32) -> Stamped {
        let mapping = Mapping {
            pid: Pid(7),
            addr: RunAddr(addr),
            len: 0x1000,
            offset: FileOffset(offset),
            protection,
            path: path.into(),
            build_id: None,
        };
        stamped(time, Record::Mmap(mapping))
    }

    fn exec(time: u64) -> Stamped {
        let comm = Record::Comm {
            pid: Pid(7),
            tid: Tid(7),
            name: "app".to_owned(),
            exec: true,
        };
        stamped(time, comm)
    }

    fn places(told: &Told) -> Vec<(u32, u64)> {
        let places = told.modules.iter().map(|placed| (placed.module.0, placed.bias));
        places.collect()
    }

    #[test]
    fn a_module_is_where_its_code_was_mapped() {
        let records = [
            mapped(1, 0x5000, "/lib/liba.so", 0, 1),
            mapped(2, 0x8000, "/lib/liba.so", 0x1000, 5),
            mapped(3, 0xa000, "/lib/libb.so", 0x1000, 5),
            mapped(4, 0xc000, "/lib/liba.so", 0x3000, 5),
            mapped(5, 0x8000, "/lib/liba.so", 0x1000, 5),
            // A part of it, whose protection was changed.
            mapped(6, 0x8800, "/lib/liba.so", 0x1800, 5),
        ];
        let told = read(&known(), &records);
        assert_eq!(told.iter().map(places).collect::<Vec<_>>(), [[(1, 0x7000)]]);
        assert!(
            told[0].replaced.is_empty(),
            "mapped again at the same place is the same"
        );
    }

    #[test]
    fn a_module_can_be_in_two_places_one_after_the_other() {
        let records = [0x8000, 0x2_8000].map(|addr| mapped(addr, addr, "/lib/liba.so", 0x1000, 5));
        let told = read(&known(), &records);
        assert_eq!(places(&told[0]), [(1, 0x7000), (1, 0x2_7000)]);
        assert!(told[0].replaced.is_empty());
    }

    #[test]
    fn what_another_program_maps_is_another_matter() {
        let records = [
            mapped(1, 0x8000, "/lib/liba.so", 0x1000, 5),
            exec(2),
            mapped(3, 0x8000, "/bin/app", 0x1000, 5),
        ];
        let told = read(&known(), &records);
        assert_eq!(
            told.iter().map(places).collect::<Vec<_>>(),
            [[(1, 0x7000)], [(0, 0x7000)]]
        );
        assert!(told.iter().all(|told| told.replaced.is_empty()));
    }

    #[test]
    fn code_at_the_place_of_other_code_is_told_of() {
        let others = [("/lib/libb.so", 0x9000), ("", 0), ("/bin/app", 0x1000)];
        for (path, offset) in others {
            let records = [
                mapped(1, 0x8000, "/lib/liba.so", 0x1000, 5),
                mapped(2, 0x8800, path, offset, 5),
            ];
            assert_eq!(read(&known(), &records)[0].replaced, [ModuleId(1)], "{path}");
        }
        let records = [
            mapped(1, 0x8000, "/lib/liba.so", 0x1000, 5),
            mapped(2, 0x9000, "/lib/libb.so", 0, 5),
            mapped(3, 0x8000, "/tmp/data", 0, 3),
        ];
        assert!(read(&known(), &records)[0].replaced.is_empty());
    }
}
