//! What the processor is told to trace: the plan's ranges, as parts of files.

use std::path::{Path, PathBuf};

use program::{FileOffset, RunAddr};
use slicer::plan::PcRange;
use tracee::perf::intel_pt::{can_filter, placed};
use tracee::process::{Module, ModuleMap};

use crate::recorder::place::Known;

/// A part of a file that is traced.
struct FilterPart {
    offset: u64,
    len: u64,
    file: PathBuf,
}

/// The filter for some ranges in a process, in at most so many parts, as PERF_EVENT_IOC_SET_FILTER takes it. `None` when
/// the kernel could not be told, or would look in the wrong place: then everything is traced, and nothing is missed.
pub(super) fn text(ranges: &[PcRange], known: &[Known], map: &ModuleMap, most: usize) -> Option<String> {
    let parts = ranges.iter().map(|range| {
        let known = known.iter().find(|known| known.module == range.module)?;
        let offset = known.offset(range.start.0)?;
        let module = known.find(map);
        let mapped = module.and_then(|module| map.file(module));
        let file = mapped.or_else(|| known.file().map(Path::to_path_buf))?;
        let is_found = module.is_none_or(|module| is_found(module, range, offset));
        (is_found && can_filter(&file)).then_some(FilterPart {
            offset: offset.0,
            len: range.len(),
            file,
        })
    });
    filter_text(&parts.collect::<Option<Vec<_>>>()?, most)
}

/// Whether the kernel finds a range of a module where it is.
fn is_found(module: &Module, range: &PcRange, offset: FileOffset) -> bool {
    let run = |addr: u64| Some(RunAddr(module.mapped.bias?.wrapping_add(addr)));
    let part = offset..FileOffset(offset.0.saturating_add(range.len()));
    let is = run(range.start.0)
        .zip(run(range.end.0))
        .map(|(start, end)| start..end);
    is.is_some() && placed(&module.mapped.ranges, part) == is
}

/// The text of a filter; `None` when it cannot be said in so many parts.
fn filter_text(parts: &[FilterPart], most: usize) -> Option<String> {
    if parts.is_empty() || parts.len() > most {
        return None;
    }
    let texts = parts.iter().map(|part| {
        let file = part.file.to_str()?;
        // The kernel takes these for the end of the name (`perf_event_parse_addr_filter`).
        let can_be_said = !file.contains([' ', ',', '\n']);
        can_be_said.then(|| format!("filter {:#x}/{:#x}@{file}", part.offset, part.len))
    });
    texts
        .collect::<Option<Vec<String>>>()
        .map(|texts| texts.join(","))
}

#[cfg(test)]
mod tests {
    use failure::image::MappedModule;
    use program::{LinkAddr, ModuleId};

    use super::*;

    fn part(offset: u64, file: &str) -> FilterPart {
        FilterPart {
            offset,
            len: 0x20,
            file: file.into(),
        }
    }

    #[test]
    fn a_filter_is_what_the_kernel_reads() {
        let text = filter_text(&[part(0x1000, "/bin/a"), part(0x40, "/lib/b.so")], 2);
        let expected = "filter 0x1000/0x20@/bin/a,filter 0x40/0x20@/lib/b.so";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn what_cannot_be_filtered_is_traced_as_a_whole() {
        assert_eq!(filter_text(&[part(0, "/bin/a"), part(1, "/bin/b")], 1), None);
        assert_eq!(filter_text(&[part(0, "/bin/my app")], 2), None);
        assert_eq!(filter_text(&[part(0, "/bin/a,b")], 2), None);
        assert_eq!(filter_text(&[], 2), None);
    }

    #[test]
    fn code_that_the_kernel_would_look_for_elsewhere_is_not_filtered() {
        let range = |start, end| PcRange {
            module: ModuleId(0),
            start: LinkAddr(start),
            end: LinkAddr(end),
        };
        // The code begins in the middle of a page of the file, which is mapped with the headers as well.
        let mapping = |start, end, offset| (RunAddr(start)..RunAddr(end), FileOffset(offset));
        let mut module = Module {
            mapped: MappedModule {
                path: "/bin/a".to_owned(),
                bias: Some(0x10_0000),
                ranges: vec![
                    mapping(0x10_0000, 0x10_2000, 0),
                    mapping(0x10_2000, 0x10_8000, 0x1000),
                ],
                build_id: None,
            },
            deleted: false,
            inode: 1,
            extent: LinkAddr(0)..LinkAddr(0x8000),
        };
        assert!(!is_found(&module, &range(0x2a40, 0x2a60), FileOffset(0x1a40)));
        assert!(is_found(&module, &range(0x3040, 0x3060), FileOffset(0x2040)));
        module.mapped.bias = None;
        assert!(!is_found(&module, &range(0x3040, 0x3060), FileOffset(0x2040)));
    }
}
