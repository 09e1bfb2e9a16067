//! From decoded instructions to blocks and edges.

use super::descent::Descent;
use super::flow::{Block, BlockId, Edges, Exit, FlowGraph, Target};
use crate::addr::LinkAddr;

/// Cuts the instructions into blocks and connects them. Instructions found before number `reached` are on a
/// path from the entry.
pub(super) fn build(descent: &mut Descent<'_, '_>, entry: u64, reached: usize, graph: &mut FlowGraph) {
    descent.exits.sort_unstable_by_key(|(ip, _)| *ip);
    descent.switches.sort_unstable_by_key(|(ip, _)| *ip);
    if cut(descent, reached, graph) {
        split_overlaps(descent);
        cut(descent, reached, graph);
    }
    graph.function = descent.function;
    graph.truncated = descent.truncated;
    connect(descent, graph);
    graph.entry = block_at(&graph.blocks, entry);
}

/// Puts the instructions into order and makes blocks of them. Tells whether instructions overlap.
fn cut(descent: &Descent<'_, '_>, reached: usize, graph: &mut FlowGraph) -> bool {
    let FlowGraph {
        instructions, blocks, ..
    } = graph;
    instructions.clear();
    instructions.reserve(descent.instructions.len());
    blocks.clear();
    blocks.reserve(descent.exits.len() + descent.exits.len() / 2 + 1);
    let mut exits = descent.exits.iter().peekable();
    let (mut open, mut overlap) = (false, false);
    for (found, instruction, leader) in descent.in_order() {
        let at = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
        let ip = instruction.ip();
        overlap |= blocks.last().is_some_and(|block| block.end.0 > ip);
        if leader || !open || blocks.last().is_none_or(|block| block.end.0 != ip) {
            blocks.push(Block {
                instrs: at..at,
                start: LinkAddr(ip),
                end: LinkAddr(ip),
                succs: Edges::default(),
                preds: Edges::default(),
                exit: Exit::FallThrough,
                exceptional: found as usize >= reached,
            });
        }
        instructions.push(*instruction);
        open = true;
        let Some(block) = blocks.last_mut() else {
            break;
        };
        block.instrs.end = at + 1;
        block.end = LinkAddr(instruction.next_ip());
        while exits.next_if(|(exit, _)| *exit < ip).is_some() {}
        if let Some((_, exit)) = exits.next_if(|(exit, _)| *exit == ip) {
            block.exit = *exit;
            open = false;
        }
    }
    overlap
}

/// Where instructions overlap, one that is not followed by its successor in address order needs a block
/// boundary at that successor.
fn split_overlaps(descent: &mut Descent<'_, '_>) {
    let mut seams = Vec::new();
    let mut last: Option<u64> = None;
    for (_, instruction, _) in descent.in_order() {
        if let Some(expected) = last.filter(|expected| *expected > instruction.ip()) {
            seams.push(expected);
            seams.push(instruction.ip());
            seams.push(instruction.next_ip());
        }
        last = Some(instruction.next_ip());
    }
    seams.into_iter().for_each(|addr| descent.begin_block(addr));
}

fn block_at(blocks: &[Block], addr: u64) -> Option<BlockId> {
    let at = blocks.binary_search_by_key(&addr, |block| block.start.0).ok()?;
    u32::try_from(at).ok().map(BlockId)
}

fn connect(descent: &Descent<'_, '_>, graph: &mut FlowGraph) {
    let mut edges: Vec<(BlockId, BlockId)> = Vec::with_capacity(graph.blocks.len() * 2);
    for at in 0..graph.blocks.len() {
        let Some(block) = graph.blocks.get(at) else { break };
        let Some(last) = graph.instructions.get(block.last().0 as usize) else {
            continue;
        };
        let from = BlockId(at as u32);
        let following = graph
            .blocks
            .get(at + 1)
            .filter(|following| following.start == block.end);
        let next = match following {
            Some(_) => Some(BlockId(at as u32 + 1)),
            None => block_at(&graph.blocks, block.end.0),
        };
        let mut add = |to: Option<BlockId>| {
            if let Some(to) = to {
                edges.push((from, to));
            }
        };
        match block.exit {
            Exit::FallThrough if next.is_none() => {
                let exit = runs_out(descent, block.end);
                graph.blocks[at].exit = exit;
            }
            Exit::FallThrough | Exit::Call(_) | Exit::ConditionalTailCall(_) => add(next),
            Exit::Jump => add(block_at(&graph.blocks, last.near_branch_target())),
            Exit::Branch => {
                add(next);
                add(block_at(&graph.blocks, last.near_branch_target()).filter(|target| Some(*target) != next));
            }
            Exit::Switch => {
                let found = descent.switches.binary_search_by_key(&last.ip(), |(ip, _)| *ip);
                let targets = found
                    .ok()
                    .and_then(|found| descent.switches.get(found))
                    .map(|(_, targets)| targets);
                targets
                    .into_iter()
                    .flatten()
                    .for_each(|target| add(block_at(&graph.blocks, *target)));
            }
            Exit::NoReturnCall(_) | Exit::TailCall(_) | Exit::Return | Exit::Stop | Exit::Unresolved => {}
        }
    }
    for (from, to) in edges {
        graph.blocks[from.0 as usize].succs.push(to);
        graph.blocks[to.0 as usize].preds.push(from);
    }
}

/// What it means that the code goes on where nothing was read: the next function begins there (an entry in
/// the middle of hand-written code), or the bytes are no instruction.
fn runs_out(descent: &Descent<'_, '_>, end: LinkAddr) -> Exit {
    match descent.context.target(end.0) {
        Target::Function(function) if function != descent.function => {
            Exit::TailCall(Target::Function(function))
        }
        _ => Exit::Stop,
    }
}
