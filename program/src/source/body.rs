//! The inside of one function: inlined calls, blocks, variables.

use std::sync::OnceLock;

use gimli::{AttributeValue, UnitOffset};

use super::Sources;
use super::functions::Function;
use super::names::Naming;
use super::units::{Entry, Unit};
use crate::addr::{LinkAddr, LinkRange};

/// The entries below one function's entry that matter at an address.
#[derive(Default)]
pub(super) struct Body {
    pub inlined: Vec<Inlined>,
    /// The ranges of inlined calls, by depth and then address: one binary search a level.
    by_depth: Vec<(u32, LinkRange, u32)>,
    blocks: Vec<Block>,
    variables: Vec<Declared>,
}

/// A call that was replaced by the callee's code.
pub(super) struct Inlined {
    pub die: UnitOffset,
    pub call_file: u64,
    pub call_line: u32,
    pub call_column: u16,
    pub naming: OnceLock<Naming>,
}

/// The function itself (the first), an inlined call, or a lexical block.
struct Block {
    ranges: Vec<LinkRange>,
    /// The block whose ranges count: itself, or the nearest one around it that has any.
    placed: u32,
    depth: u32,
    inlined: Option<u32>,
}

struct Declared {
    die: UnitOffset,
    block: u32,
    is_parameter: bool,
}

/// A variable whose block covers an address.
pub(super) struct InScope {
    pub die: UnitOffset,
    /// The inlined call that it belongs to; the function itself when absent.
    pub inlined: Option<u32>,
    pub is_parameter: bool,
}

impl Body {
    /// The inlined calls at an address, outermost first.
    pub fn inlined_at(&self, addr: LinkAddr) -> impl Iterator<Item = (u32, &Inlined)> {
        (0..).map_while(move |depth| {
            let after = self
                .by_depth
                .partition_point(|(level, range, _)| (*level, range.start) <= (depth, addr));
            let (level, range, number) = self.by_depth.get(after.checked_sub(1)?)?;
            let here = *level == depth && range.end > addr;
            here.then(|| Some((*number, self.inlined.get(usize::try_from(*number).ok()?)?)))?
        })
    }

    /// The code of every inlined call.
    pub fn inlined_ranges(&self) -> impl Iterator<Item = (&Inlined, &LinkRange)> {
        self.by_depth.iter().filter_map(|(_, range, number)| {
            let inlined = self.inlined.get(usize::try_from(*number).ok()?)?;
            Some((inlined, range))
        })
    }

    /// The parameters of the function itself.
    pub fn parameters(&self) -> impl Iterator<Item = UnitOffset> {
        self.variables
            .iter()
            .filter(|variable| variable.is_parameter && variable.block == 0)
            .map(|variable| variable.die)
    }

    /// The variables in scope at an address, innermost block first.
    pub fn variables_at(&self, addr: LinkAddr) -> Vec<InScope> {
        let mut found: Vec<(u32, InScope)> = Vec::new();
        for variable in &self.variables {
            let Some(block) = self.block(variable.block) else {
                continue;
            };
            if self.covers(block, addr) {
                let in_scope = InScope {
                    die: variable.die,
                    inlined: block.inlined,
                    is_parameter: variable.is_parameter,
                };
                found.push((block.depth, in_scope));
            }
        }
        found.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        found.into_iter().map(|(_, variable)| variable).collect()
    }

    fn block(&self, number: u32) -> Option<&Block> {
        self.blocks.get(usize::try_from(number).ok()?)
    }

    fn covers(&self, block: &Block, addr: LinkAddr) -> bool {
        let placed = self.block(block.placed);
        placed.is_some_and(|placed| placed.ranges.iter().any(|range| range.contains(&addr)))
    }

    fn add_block(&mut self, ranges: Vec<LinkRange>, parent: u32, inlined: Option<u32>) -> u32 {
        let this = number(self.blocks.len());
        let outer = self.block(parent);
        let depth = outer.map_or(0, |outer| outer.depth + 1);
        let placed = if ranges.is_empty() {
            outer.map_or(this, |outer| outer.placed)
        } else {
            this
        };
        let inlined = inlined.or_else(|| outer?.inlined);
        self.blocks.push(Block {
            ranges,
            placed,
            depth,
            inlined,
        });
        this
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl<'a> Sources<'a> {
    pub(super) fn body_of<'s>(&'s self, unit: &Unit<'a>, function: &'s Function) -> &'s Body {
        function.body.get_or_init(|| {
            let mut body = Body::default();
            if self.read_body(unit, function, &mut body).is_err() {
                self.problem(format!(
                    "the entries of the function at {} were read in part",
                    function.ranges.first().map_or(LinkAddr(0), |range| range.start)
                ));
            }
            body.by_depth
                .sort_by_key(|(depth, range, _)| (*depth, range.start));
            Box::new(body)
        })
    }

    fn read_body(&self, unit: &Unit<'a>, function: &Function, body: &mut Body) -> gimli::Result<()> {
        let mut entries = unit.gimli.entries_raw(Some(function.die))?;
        let root = entries.next_depth();
        let mut entry = Entry::null();
        if !entries.read_entry(&mut entry)? || !entry.has_children() {
            return Ok(());
        }
        body.add_block(function.ranges.clone(), 0, None);
        // Depth of the entry, number of the block, depth of inlining inside it.
        let mut open: Vec<(isize, u32, u32)> = vec![(root, 0, 0)];
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            while open.last().is_some_and(|(level, ..)| *level >= depth) {
                open.pop();
            }
            let Some(&(level, parent, inlining)) = open.last() else {
                break;
            };
            if !self.entry_budget.spend(1) {
                return Err(gimli::Error::TooManyIterations);
            }
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let tag = abbreviation.tag();
            entries.skip_attributes(abbreviation.attributes())?;
            if depth != level + 1 {
                // Inside a type or a function of its own.
                continue;
            }
            match tag {
                gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable => body.variables.push(Declared {
                    die: offset,
                    block: parent,
                    is_parameter: tag == gimli::DW_TAG_formal_parameter,
                }),
                gimli::DW_TAG_inlined_subroutine => {
                    let entry = unit.gimli.entry(offset)?;
                    let ranges = self.ranges_of(unit, &entry);
                    let this = number(body.inlined.len());
                    let here = ranges.iter().map(|range| (inlining, range.clone(), this));
                    body.by_depth.extend(here);
                    body.inlined.push(inlined(&entry));
                    let block = body.add_block(ranges, parent, Some(this));
                    if abbreviation.has_children() {
                        open.push((depth, block, inlining + 1));
                    }
                }
                gimli::DW_TAG_lexical_block | gimli::DW_TAG_try_block | gimli::DW_TAG_catch_block
                    if abbreviation.has_children() =>
                {
                    let ranges = self.ranges_of(unit, &unit.gimli.entry(offset)?);
                    let block = body.add_block(ranges, parent, None);
                    open.push((depth, block, inlining));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn inlined(entry: &Entry<'_>) -> Inlined {
    let plain = |name| entry.attr_value(name).and_then(|value| value.udata_value());
    let call_file = match entry.attr_value(gimli::DW_AT_call_file) {
        Some(AttributeValue::FileIndex(file)) => file,
        Some(value) => value.udata_value().unwrap_or(0),
        None => 0,
    };
    Inlined {
        die: entry.offset(),
        call_file,
        call_line: plain(gimli::DW_AT_call_line)
            .and_then(|line| u32::try_from(line).ok())
            .unwrap_or(0),
        call_column: plain(gimli::DW_AT_call_column)
            .and_then(|column| u16::try_from(column).ok())
            .unwrap_or(0),
        naming: OnceLock::new(),
    }
}
