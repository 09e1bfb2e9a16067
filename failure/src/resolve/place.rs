//! Where in the program a frame is, by whatever the report gives.

use std::collections::HashMap;

use program::code::FunctionId;
use program::{LinkAddr, Module, ModuleId, Pc, Program};

use crate::frames::names::plain;
use crate::report::{Frame, Position, Report};

/// gdb turns address randomisation off, and Linux then puts position-independent executables here.
const UNRANDOMISED_BASE: u64 = 0x5555_5555_4000;

pub(super) const PAGE: u64 = 4096;

/// Whether two paths mean one file, as far as a report lets one tell: by their last parts.
pub(super) fn same_file(one: &str, other: &str) -> bool {
    let base = |path: &str| {
        path.trim_end_matches(" (deleted)")
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    !one.is_empty() && base(one) == base(other)
}

/// The path by which a report speaks of the file that was given: one of the same name among its modules, else
/// its program, which may have been renamed or copied since.
#[must_use]
pub fn recorded_path<'r>(
    given: &str,
    mut modules: impl Iterator<Item = &'r str>,
    program: Option<&'r str>,
) -> Option<&'r str> {
    modules.find(|path| same_file(path, given)).or(program)
}

/// A place, and how much of it is known.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub pc: Pc,
    /// It is one of several that the lines allow.
    pub line_only: bool,
    /// The functions there are those that the report names, inlined ones included.
    pub functions_known: bool,
}

impl Place {
    pub(super) fn exact(pc: Pc) -> Self {
        Self {
            pc,
            line_only: false,
            functions_known: true,
        }
    }
}

/// The path by which a report speaks of a program's executable.
pub(super) fn recorded_executable<'r>(program: &Program<'_>, report: &'r Report) -> Option<&'r str> {
    let (_, given) = program.modules().next()?;
    let frames = report.threads.iter().flat_map(|thread| &thread.frames);
    let modules = frames.filter_map(|frame| frame.module.as_ref());
    recorded_path(
        given.name(),
        modules.map(|module| module.path.as_str()),
        report.program.as_deref(),
    )
}

/// Finds places for frames.
pub(super) struct Places<'p, 'a> {
    program: &'p Program<'a>,
    /// The path by which the report speaks of the executable.
    executable: Option<String>,
    /// Run-time minus link-time address of modules where frames gave both.
    biases: HashMap<ModuleId, u64>,
}

impl<'p, 'a> Places<'p, 'a> {
    pub(super) fn new(program: &'p Program<'a>, report: &Report) -> Self {
        let mut places = Self {
            program,
            executable: recorded_executable(program, report).map(str::to_owned),
            biases: HashMap::new(),
        };
        // Frames that name both a run-time address and a place tell the bias that the others need.
        for frame in report.threads.iter().flat_map(|thread| &thread.frames) {
            if let (Some(address), Some(pc)) = (
                frame.address,
                places.by_offset(frame).or_else(|| places.by_symbol(frame)),
            ) {
                let bias = address.0.wrapping_sub(pc.addr.0);
                if bias.is_multiple_of(PAGE) {
                    places.biases.entry(pc.module).or_insert(bias);
                }
            }
        }
        let stacks = report.threads.iter().map(|thread| thread.frames.as_slice());
        if let Some((pc, address)) = places.told_by_lines(stacks) {
            places
                .biases
                .entry(pc.module)
                .or_insert(address.0.wrapping_sub(pc.addr.0));
        }
        places
    }

    /// The place of a frame; `inner` is the function of the next inner frame, which a call there leads to.
    pub(super) fn find(&self, frame: &Frame, inner: Option<&str>) -> Option<Place> {
        let exact = self.exact(frame).map(Place::exact);
        exact.or_else(|| self.by_line_only(frame, inner))
    }

    /// The place of a frame of which more than a source line is told.
    pub(super) fn exact(&self, frame: &Frame) -> Option<Pc> {
        self.by_offset(frame)
            .or_else(|| self.by_symbol(frame))
            .or_else(|| self.by_address(frame))
    }

    /// The place of a frame by its source line.
    pub(super) fn by_line_only(&self, frame: &Frame, inner: Option<&str>) -> Option<Place> {
        self.by_line(frame, inner).map(|pc| Place {
            pc,
            line_only: true,
            functions_known: false,
        })
    }

    pub(super) fn candidates(&self, frame: &Frame) -> impl Iterator<Item = (ModuleId, &'p Module<'a>)> {
        let named = frame.module.as_ref().map(|module| module.path.clone());
        let is_executable = named.is_some() && named == self.executable;
        self.program.modules().filter(move |(id, module)| {
            let is_given = is_executable && *id == ModuleId(0);
            is_given || named.as_deref().is_none_or(|path| same_file(path, module.name()))
        })
    }

    /// `(module + 0x1139)`: an address in the file as linked, a position in the file itself, or one in its code.
    fn by_offset(&self, frame: &Frame) -> Option<Pc> {
        let reported = frame.module.as_ref()?;
        // A host may have another build of a library: what is at an offset of the one is not at that of the other.
        let is_other_build = |module: &Module<'_>| {
            let (here, there) = (module.elf().build_id(), reported.build_id.as_ref());
            here.as_ref()
                .zip(there)
                .is_some_and(|(here, there)| here != there)
        };
        let candidates = || {
            self.candidates(frame)
                .filter(|(_, module)| !is_other_build(module))
        };
        if let Some(offset) = reported.file_offset {
            return candidates().find_map(|(id, module)| {
                let addr = module.elf().segments().to_link_addr(offset)?;
                Some(Pc { module: id, addr })
            });
        }
        if let Some(position) = reported.in_code {
            return candidates().find_map(|(id, module)| {
                let start = module.elf().segments().code_mapped_as(position.length)?;
                let addr = LinkAddr(start.0.checked_add(position.into)?);
                Some(Pc { module: id, addr })
            });
        }
        let addr = reported.addr?;
        candidates().find_map(|(id, module)| {
            let elf = module.elf();
            // Some tools print offsets from where a file that cannot be moved is mapped.
            let lowest = elf.segments().lowest().filter(|_| elf.is_fixed());
            let shifted = lowest.map(|lowest| LinkAddr(lowest.0.wrapping_add(addr.0)));
            let inside = |addr: &LinkAddr| elf.segments().is_executable(addr.offset(-1));
            let addr = Some(addr).filter(inside).or_else(|| shifted.filter(inside))?;
            Some(Pc { module: id, addr })
        })
    }

    /// `symbol+0x1d`, or a symbol with a run-time address: pages are mapped whole, so the last twelve bits of
    /// the address are those of the instruction, and a function shorter than a page has just one such place.
    fn by_symbol(&self, frame: &Frame) -> Option<Pc> {
        let symbol = frame.symbol.as_ref()?;
        for (id, module) in self.candidates(frame) {
            for function in module.code().functions().named(&symbol.name) {
                let found = module.code().functions().get(function)?;
                if let Some(offset) = symbol.offset {
                    let addr = LinkAddr(found.entry.0.wrapping_add(offset));
                    if module.code().functions().at(addr.offset(-1)) == Some(function) {
                        return Some(Pc { module: id, addr });
                    }
                }
                if let Some(addr) = self.by_low_bits(module, function, frame) {
                    return Some(Pc { module: id, addr });
                }
            }
        }
        None
    }

    fn by_low_bits(&self, module: &Module<'_>, function: FunctionId, frame: &Frame) -> Option<LinkAddr> {
        let address = frame.address?.0;
        let flow = module.code().flow(function);
        let fits = |addr: LinkAddr| (addr.0 ^ address).is_multiple_of(PAGE);
        let line = frame.location.as_ref().map(|location| location.line);
        let on_line = |addr: LinkAddr| {
            let at = if frame.position == Position::Return {
                addr.offset(-1)
            } else {
                addr
            };
            line.is_none_or(|line| {
                module
                    .sources()
                    .frames_at(at)
                    .iter()
                    .any(|frame| frame.line == line)
            })
        };
        // A return address is where the next instruction starts, even when nothing falls through to it.
        let places: Vec<LinkAddr> = flow
            .instructions
            .iter()
            .flat_map(|instr| [LinkAddr(instr.ip()), LinkAddr(instr.next_ip())])
            .filter(|&addr| fits(addr))
            .collect();
        places
            .iter()
            .copied()
            .find(|&addr| on_line(addr))
            .or_else(|| places.first().copied())
    }

    /// A run-time address: at its place in a file that cannot be moved, else by the module's bias. A place in
    /// another function than the report names is no place: the bias was guessed wrongly.
    fn by_address(&self, frame: &Frame) -> Option<Pc> {
        let address = frame.address?.0;
        self.candidates(frame).find_map(|(id, module)| {
            let bias = if module.elf().is_fixed() {
                Some(0)
            } else {
                let unrandomised = address & !0xffff_ffff == UNRANDOMISED_BASE & !0xffff_ffff;
                let known = self.biases.get(&id).copied();
                known.or_else(|| unrandomised.then_some(UNRANDOMISED_BASE))
            };
            let addr = LinkAddr(address.wrapping_sub(bias?));
            let inside = addr.offset(-1);
            let fits = frame
                .symbol
                .as_ref()
                .is_none_or(|symbol| names_at(module, inside, &symbol.name));
            let code = module.elf().segments().is_executable(inside);
            (code && fits).then_some(Pc { module: id, addr })
        })
    }

    /// A source line, perhaps in a named function. For an outer frame it is the line's call that led to the
    /// inner one.
    fn by_line(&self, frame: &Frame, inner: Option<&str>) -> Option<Pc> {
        let location = frame.location.as_ref()?;
        for (id, module) in self.candidates(frame) {
            let Ok(found) = module.sources().addresses_of(&location.file, location.line) else {
                continue;
            };
            let in_function = |addr: LinkAddr| {
                frame
                    .symbol
                    .as_ref()
                    .is_none_or(|symbol| names_at(module, addr, &symbol.name))
            };
            let pieces: Vec<_> = found
                .matches
                .iter()
                .filter(|piece| in_function(piece.range.start))
                .collect();
            let first = pieces.first()?;
            if frame.position == Position::Return {
                let calls = pieces
                    .iter()
                    .flat_map(|piece| calls_in(module, piece.range.clone()));
                let mut calls: Vec<(LinkAddr, Option<String>)> = calls.collect();
                let led = |(_, name): &(LinkAddr, Option<String>)| match (name, inner) {
                    (Some(name), Some(inner)) => same_function(name, inner),
                    _ => false,
                };
                let best = calls
                    .iter()
                    .position(led)
                    .unwrap_or(calls.len().saturating_sub(1));
                if best < calls.len() {
                    return Some(Pc {
                        module: id,
                        addr: calls.swap_remove(best).0,
                    });
                }
            }
            // Behind a call that is not there: still inside the line.
            let behind = i64::from(frame.position == Position::Return);
            return Some(Pc {
                module: id,
                addr: first.range.start.offset(behind),
            });
        }
        None
    }
}

/// The calls in a range of code: where each returns to and whom it calls.
pub(super) fn calls_in(module: &Module<'_>, range: program::LinkRange) -> Vec<(LinkAddr, Option<String>)> {
    let Some(function) = module.code().functions().at(range.start) else {
        return Vec::new();
    };
    let flow = module.code().flow(function);
    flow.calls()
        .filter_map(|(ix, target, _)| {
            let instr = flow.instruction(ix)?;
            let name = module
                .code()
                .target_name(target)
                .map(program::code::demangle_path);
            range
                .contains(&LinkAddr(instr.ip()))
                .then_some((LinkAddr(instr.next_ip()), name))
        })
        .collect()
}

/// Whether a function of this name is at an address, inlined ones included, or nothing says who is.
fn names_at(module: &Module<'_>, addr: LinkAddr, name: &str) -> bool {
    let sources = module.sources().frames_at(addr);
    let described = sources
        .iter()
        .flat_map(|source| [source.function.clone(), source.linkage_name.clone()])
        .flatten();
    let mut names: Vec<_> = described.collect();
    names.extend(module.name_of_function_at(addr));
    names.is_empty() || names.iter().any(|found| same_function(found, name))
}

/// Whether two spellings name one function: modules, versions, hashes, parameters and template arguments may
/// be there or not, and an inner part of the path may be left out.
pub(super) fn same_function(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one).path, plain(other).path);
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with("::"));
    !one.is_empty() && !other.is_empty() && (one == other || ends(&one, &other) || ends(&other, &one))
}
