//! Where in the program a machine frame is, by the source lines of all functions that are inlined in it.
//!
//! One line may be inlined in many places, but the lines of all functions around it are together in few: most
//! often in one that also fits what is known of the address.

use program::source::SourceFrame;
use program::{LinkAddr, Module, ModuleId, Pc, RunAddr, is_library_path};

use super::place::{PAGE, Place, Places, calls_in, same_function};
use crate::report::{Frame, Position};

/// Machine frames that are looked at to learn where a module was loaded.
const MOST_LOOKED_AT: usize = 64;

/// A place that the innermost frame's line allows.
struct Candidate<'p, 'a> {
    module: (ModuleId, &'p Module<'a>),
    /// Inside the instruction that was executing.
    executing: LinkAddr,
    /// What the report would have called the place: the address itself, or the one behind the call.
    addr: LinkAddr,
    /// Whom it calls, if it is a call.
    callee: Option<String>,
}

impl<'p, 'a> Places<'p, 'a> {
    /// How many of the frames, from the first, are one machine frame, and where that is, if more than the line of
    /// one of them tells. `inner` is the function of the next inner frame, which a call there leads to.
    pub(super) fn machine_frame(&self, frames: &[Frame], inner: Option<&str>) -> (usize, Option<Place>) {
        let marked = frames.iter().position(|frame| !frame.inlined);
        let count = marked.map_or(frames.len(), |last| last + 1);
        let Some((outer, group)) = frames.get(..count).and_then(|group| Some((group.last()?, group))) else {
            return (frames.len().max(1), None);
        };
        if let Some(pc) = self.exact(outer) {
            return (count, Some(Place::exact(pc)));
        }
        // Without addresses nothing tells what was inlined but the program.
        let unmarked = count == 1 && outer.address.is_none() && outer.position == Position::Return;
        if unmarked && outer.location.is_some() {
            return self.by_unmarked_lines(frames, inner).unwrap_or((1, None));
        }
        (count, self.by_lines(group))
    }

    /// A machine frame whose place only the lines tell, together with the address that the report gives.
    pub(super) fn told_by_lines<'f>(
        &self,
        stacks: impl Iterator<Item = &'f [Frame]>,
    ) -> Option<(Pc, RunAddr)> {
        let machine = stacks.flat_map(|stack| stack.split_inclusive(|frame| !frame.inlined));
        machine.take(MOST_LOOKED_AT).find_map(|group| {
            let outer = group.last()?;
            let address = outer.address?;
            if self.exact(outer).is_some() {
                return None;
            }
            let place = self.by_lines(group).filter(|place| !place.line_only)?;
            Some((place.pc, address))
        })
    }

    /// The place of a function and of those that are inlined there, innermost first, by their lines and what
    /// of the address is the same in every run. gdb leaves an address out where it is the start of a line's code.
    fn by_lines(&self, group: &[Frame]) -> Option<Place> {
        let outer = group.last()?;
        if outer.address.is_none() && outer.position == Position::Return {
            return None;
        }
        let candidates = self.on_line(group.first()?, outer);
        let fitting: Vec<_> = candidates
            .into_iter()
            .filter_map(|candidate| {
                let sources = candidate.module.1.sources().frames_at(candidate.executing);
                Some((fits(&sources, group)?, candidate.pc()))
            })
            .collect();
        let best = fitting.iter().map(|(fit, _)| *fit).max()?;
        let mut fitting = fitting.into_iter().filter(|(fit, _)| *fit == best);
        let (_, pc) = fitting.next()?;
        Some(Place {
            pc,
            line_only: fitting.next().is_some(),
            functions_known: true,
        })
    }

    /// The same where the report does not say what was inlined: as many frames as a place explains. The outermost
    /// functions, which start a thread or the program, may be left out of the report.
    fn by_unmarked_lines(&self, frames: &[Frame], inner: Option<&str>) -> Option<(usize, Option<Place>)> {
        let first = frames.first()?;
        let mut best: Option<((usize, bool), Pc)> = None;
        for candidate in self.on_line(first, first) {
            let sources = candidate.module.1.sources().frames_at(candidate.executing);
            let count = in_common(&sources, frames);
            let rest = sources.get(count..).unwrap_or_default();
            let explains = rest
                .iter()
                .all(|source| source.file.as_deref().is_some_and(is_library_path));
            if count < 2 && !rest.is_empty() || !explains {
                continue;
            }
            let leads = candidate.callee.as_deref().zip(inner);
            let rank = (
                count,
                leads.is_some_and(|(callee, inner)| same_function(callee, inner)),
            );
            if best.is_none_or(|(known, _)| known < rank) {
                best = Some((rank, candidate.pc()));
            }
        }
        let ((count, _), pc) = best?;
        Some((count, Some(Place::exact(pc))))
    }

    /// The places on the innermost frame's line that fit the position and address of its machine frame.
    fn on_line(&self, innermost: &Frame, outer: &Frame) -> Vec<Candidate<'p, 'a>> {
        let Some(location) = &innermost.location else {
            return Vec::new();
        };
        let behind = u64::from(outer.position == Position::Return);
        let mut found = Vec::new();
        for module in self.candidates(outer) {
            let Ok(code) = module.1.sources().addresses_of(&location.file, location.line) else {
                continue;
            };
            for piece in code.matches {
                let range = piece.range;
                match (outer.address, outer.position) {
                    (Some(address), _) => {
                        let executing = address.0.wrapping_sub(behind);
                        let into = executing.wrapping_sub(range.start.0) % PAGE;
                        let executing = LinkAddr(range.start.0.wrapping_add(into));
                        if range.contains(&executing) {
                            let addr = LinkAddr(executing.0.wrapping_add(behind));
                            found.push(Candidate {
                                module,
                                executing,
                                addr,
                                callee: None,
                            });
                        }
                    }
                    (None, Position::Exact) => {
                        let addr = range.start;
                        found.push(Candidate {
                            module,
                            executing: addr,
                            addr,
                            callee: None,
                        });
                    }
                    (None, Position::Return) => {
                        let calls = calls_in(module.1, range).into_iter();
                        found.extend(calls.map(|(addr, callee)| {
                            let executing = addr.offset(-1);
                            Candidate {
                                module,
                                executing,
                                addr,
                                callee,
                            }
                        }));
                    }
                }
            }
        }
        found
    }
}

impl Candidate<'_, '_> {
    fn pc(&self) -> Pc {
        Pc {
            module: self.module.0,
            addr: self.addr,
        }
    }
}

/// How well a place fits a machine frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// All but the innermost function and line.
    Around,
    /// Every function and line.
    Whole,
}

/// Whether the functions at a place, which is on the line of the innermost frame, are those of a machine frame.
///
/// Several lines may begin at one address, and gdb may leave out functions that begin just there: of a frame
/// without address, the innermost line and function need not be those that belong to the instruction.
fn fits(sources: &[SourceFrame], group: &[Frame]) -> Option<Fit> {
    let hidden = sources.len().checked_sub(group.len())?;
    if hidden == 0 && in_common(sources, group) == group.len() {
        return Some(Fit::Whole);
    }
    let begins = group.last().is_some_and(|outer| outer.address.is_none());
    let (sources, frames) = sources.get(hidden + 1..).zip(group.get(1..))?;
    (begins && in_common(sources, frames) == frames.len()).then_some(Fit::Around)
}

/// How many of the functions at a place, innermost first, are those of the frames.
fn in_common(sources: &[SourceFrame], frames: &[Frame]) -> usize {
    let same = |(source, frame): &(&SourceFrame, &Frame)| match (&frame.location, &frame.symbol) {
        (Some(location), _) => location.line == source.line,
        (None, Some(symbol)) => {
            let mut names = [&source.function, &source.linkage_name].into_iter().flatten();
            names.any(|name| same_function(name, &symbol.name))
        }
        (None, None) => false,
    };
    sources.iter().zip(frames).take_while(same).count()
}
