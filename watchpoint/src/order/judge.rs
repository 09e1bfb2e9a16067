//! The best of all orders that were found, and what of it is certain.

use super::chain::Fit;
use super::item::{Item, Times};
use super::search::Search;

/// How far from its place in the order an item is looked for at another.
const FAR: usize = 64;

/// The next item to take: the first that waits of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) tid: u32,
    pub(super) earliest_ns: u64,
    pub(super) latest_ns: u64,
    pub(super) fit: Fit,
    /// Another place among its neighbours would do as well, or none does.
    pub(super) uncertain: bool,
    /// However the items up to here came about, what can follow is the same: nothing later tells more about them.
    pub(super) decided: bool,
}

/// An item's place in its thread's queue.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Spot {
    thread: usize,
    at: usize,
}

struct Taken<'s> {
    spot: Spot,
    item: &'s Item,
    layer: usize,
}

/// The order nearest to that of the reports.
pub(super) fn judged(search: &Search<'_>) -> Vec<Step> {
    let possible = possible(search);
    let first_end = first_end(search, &possible);
    let mut steps = Vec::new();
    let mut accesses: Vec<Taken<'_>> = Vec::new();
    for (layer, (spot, fit)) in path(search).into_iter().enumerate() {
        let Some(item) = search.item(spot.thread, spot.at) else {
            break;
        };
        let cut = search.layers[layer + 1].cut;
        steps.push(Step {
            tid: search.tids[spot.thread],
            earliest_ns: item.earliest_ns,
            latest_ns: item.latest_ns,
            fit,
            uncertain: fit != Fit::Fits,
            decided: !cut
                && layer < first_end
                && possible[layer + 1].iter().filter(|possible| **possible).count() == 1,
        });
        if item.access().is_none() {
            continue;
        }
        let taken = Taken { spot, item, layer };
        let neighbour = accesses.last();
        let same_place = accesses.iter().rev().find(|other| other.item.place == item.place);
        for other in neighbour.into_iter().chain(same_place) {
            if matters(other, &taken, search.times) && could_swap(search, &possible, other, &taken) {
                steps[other.layer].uncertain = true;
                steps[layer].uncertain = true;
            }
        }
        accesses.push(taken);
    }
    steps
}

/// Which situations of each layer are on a way that strains belief as little as any.
fn possible(search: &Search<'_>) -> Vec<Vec<bool>> {
    let mut rest: Vec<Vec<Option<u32>>> = search
        .layers
        .iter()
        .map(|layer| vec![None; layer.situations.len()])
        .collect();
    for (at, (layer, rest)) in search.layers.iter().zip(&mut rest).enumerate() {
        for (situation, rest) in layer.situations.iter().zip(rest) {
            *rest = search.may_end(at, situation).then_some(0);
        }
    }
    for layer in (1..search.layers.len()).rev() {
        let (before, here) = rest.split_at_mut(layer);
        let (Some(before), Some(here)) = (before.last_mut(), here.first()) else {
            continue;
        };
        for (situation, ahead) in search.layers[layer].situations.iter().zip(here) {
            let Some(ahead) = ahead else { continue };
            for edge in &situation.edges {
                let strain = ahead + edge.fit.strain();
                let least = &mut before[edge.from];
                *least = Some(least.map_or(strain, |least| least.min(strain)));
            }
        }
    }
    let least = rest.first().and_then(|start| start.first().copied().flatten());
    let layers = search.layers.iter().zip(&rest);
    let layers = layers.map(|(layer, rest)| {
        let ways = layer.situations.iter().zip(rest);
        ways.map(|(situation, ahead)| ahead.map(|ahead| ahead + situation.strain) == least)
            .collect()
    });
    layers.collect()
}

/// The first layer that a possible order ends with.
fn first_end(search: &Search<'_>, possible: &[Vec<bool>]) -> usize {
    let ends = search
        .layers
        .iter()
        .zip(possible)
        .enumerate()
        .position(|(at, (layer, possible))| {
            let mut situations = layer.situations.iter().zip(possible);
            situations.any(|(situation, possible)| *possible && search.may_end(at, situation))
        });
    ends.unwrap_or(0)
}

/// The best way through the layers.
fn path(search: &Search<'_>) -> Vec<(Spot, Fit)> {
    let ends = search.layers.iter().enumerate().flat_map(|(layer, here)| {
        let ends = here.situations.iter().enumerate();
        let ends = ends.filter(move |(_, situation)| search.may_end(layer, situation));
        ends.map(move |(at, situation)| (situation.cost(), layer, at))
    });
    let Some((_, end, mut situation)) = ends.min() else {
        return Vec::new();
    };
    let mut path = Vec::new();
    for layer in (1..=end).rev() {
        let Some(edge) = search.layers[layer].situations[situation].edges.first() else {
            break;
        };
        let before = &search.layers[layer - 1].situations[edge.from];
        let spot = Spot {
            thread: edge.thread,
            at: before.at[edge.thread],
        };
        path.push((spot, edge.fit));
        situation = edge.from;
    }
    path.reverse();
    path
}

/// Whether it makes a difference which of two came first, and their times do not tell.
fn matters(first: &Taken<'_>, second: &Taken<'_>, times: Times) -> bool {
    let writes = |taken: &Taken<'_>| taken.item.access().is_some_and(|pending| pending.may_write());
    let close = second.item.begins_ns(times) <= first.item.latest_ns;
    close && first.spot.thread != second.spot.thread && (writes(first) || writes(second))
}

/// Whether there is an order, as good as any, in which the second comes before the first.
fn could_swap(search: &Search<'_>, possible: &[Vec<bool>], first: &Taken<'_>, second: &Taken<'_>) -> bool {
    let near = first.layer.saturating_sub(FAR)..(second.layer + FAR).min(search.layers.len());
    let mut layers = search.layers[near.clone()].iter().zip(&possible[near]);
    let without = |(layer, possible): (&super::search::Layer, &Vec<bool>)| {
        let mut situations = layer.situations.iter().zip(possible);
        layer.cut
            || situations.any(|(situation, possible)| {
                let at = &situation.at;
                *possible && at[second.spot.thread] > second.spot.at && at[first.spot.thread] <= first.spot.at
            })
    };
    layers.any(without)
}
