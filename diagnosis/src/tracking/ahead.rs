//! What is tracked beyond σ, because it costs next to nothing.
//!
//! A recurrence is dear, and one that watched nothing, or one thing where four could have been, is half lost: registers that the
//! tracked statements leave free take the locations that come next in the slice. More than the registers hold is for a larger σ.
//! Control flow is recorded as far as the slice has been read: a branch costs a fraction of an access that is noticed.

use slicer::plan::WatchSite;
use watchpoint::arm::Armed;
use watchpoint::{WatchSpec, registers_for};

use super::REGISTERS;

/// Sites that are looked at beyond the tracked ones: several may be one location.
const MOST_SITES: usize = 2 * REGISTERS;

/// Adds the first sites of a longer plan that are not among those of the plan yet, if there may be room for them. What tells nothing
/// takes none.
pub(super) fn add(sites: &mut Vec<WatchSite>, farther: Vec<WatchSite>, tells: impl Fn(&WatchSite) -> bool) {
    let mut room = MOST_SITES.saturating_sub(sites.iter().filter(|site| tells(site)).count());
    for site in farther {
        if room > 0 && tells(&site) && !sites.contains(&site) {
            sites.push(site);
            room -= 1;
        }
    }
}

/// Keeps the locations of the first `near` sites, and as many of the others, in their order, as there are registers for beside those of them
/// that tell something.
pub(super) fn fill(locations: &mut Vec<Armed>, near: usize, tells: impl Fn(&Armed) -> bool) {
    let is_near = |armed: &Armed| armed.sites.iter().any(|&site| site < near);
    let mut kept: Vec<WatchSpec> = locations
        .iter()
        .filter(|armed| is_near(armed) && tells(armed))
        .map(|armed| armed.spec.clone())
        .collect();
    locations.retain(|armed| {
        if is_near(armed) {
            return true;
        }
        kept.push(armed.spec.clone());
        let fits = registers_for(&kept.iter().collect::<Vec<_>>()) <= REGISTERS;
        if !fits {
            kept.pop();
        }
        fits
    });
}

#[cfg(test)]
mod tests {
    use program::LinkAddr;
    use watchpoint::{Address, Trigger};

    use super::*;

    fn armed(site: usize, len: u32) -> Armed {
        Armed {
            sites: vec![site],
            spec: WatchSpec {
                address: Address::Static {
                    module: None,
                    addr: LinkAddr(0x1000 + 64 * site as u64),
                },
                len,
                trigger: Trigger::ReadWrite,
                places: 1,
            },
        }
    }

    fn filled(lengths: &[u32], near: usize) -> Vec<usize> {
        filled_beside(lengths, near, &[])
    }

    fn filled_beside(lengths: &[u32], near: usize, quiet: &[usize]) -> Vec<usize> {
        let mut locations: Vec<Armed> = lengths
            .iter()
            .enumerate()
            .map(|(site, &len)| armed(site, len))
            .collect();
        let tells = |armed: &Armed| !armed.sites.iter().any(|site| quiet.contains(site));
        fill(&mut locations, near, tells);
        locations.iter().flat_map(|armed| armed.sites.clone()).collect()
    }

    #[test]
    fn what_comes_next_takes_the_registers_that_are_free() {
        assert_eq!(filled(&[8; 6], 0), [0, 1, 2, 3]);
        assert_eq!(filled(&[8; 6], 1), [0, 1, 2, 3]);
        assert_eq!(filled(&[8, 16, 16, 8], 1), [0, 1, 3], "a larger one waits");
    }

    #[test]
    fn what_tells_nothing_takes_no_register_from_others() {
        assert_eq!(filled_beside(&[8; 7], 2, &[0, 1]), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_tracked_stays_however_much_it_is() {
        assert_eq!(filled(&[8; 7], 6), [0, 1, 2, 3, 4, 5]);
    }
}
