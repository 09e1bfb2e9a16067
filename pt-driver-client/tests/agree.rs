//! Random programs, run at random: both decoders say what ran. Traces that were damaged: both find the damage.

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use pt_driver_client::code::Image;
use pt_driver_client::flow::parallel;
use pt_driver_client::packet::next_psb;
use pt_driver_client::summary::Summary;
use std::num::NonZero;
use support::machine::{BASE, Code, programs, run};
use support::{ours, theirs};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn on_what_ran(
        program in programs(),
        choices in prop::collection::vec(any::<u16>(), 0..600),
        compressed in any::<bool>(),
    ) {
        let code = Code::new(&program);
        let run = run(&code, &choices, compressed);
        let image = Image::new([(BASE, code.bytes.as_slice())]);
        let theirs = theirs(&image, &run.trace);
        prop_assert_eq!(&theirs.gaps, &[]);
        prop_assert_eq!(&theirs.instructions(), &run.ran);
        let ours = ours(&image, &run.trace);
        prop_assert_eq!(&ours.gaps, &[]);
        prop_assert_eq!(&ours.instructions(), &run.ran);
    }

    #[test]
    fn on_every_beginning(
        program in programs(),
        choices in prop::collection::vec(any::<u16>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let code = Code::new(&program);
        let run = run(&code, &choices, true);
        let image = Image::new([(BASE, code.bytes.as_slice())]);
        let beginning = &run.trace[..cut.index(run.trace.len() + 1)];
        prop_assert_eq!(ours(&image, beginning).items, theirs(&image, beginning).items);
    }
}

/// Where a damaged trace stops making sense is a matter of how far a decoder looks ahead, so a few may differ; most
/// must not. The same traces every time.
#[test]
fn on_most_damage() {
    const TRACES: usize = 400;
    let mut runner = TestRunner::deterministic();
    let damaged = (
        programs(),
        prop::collection::vec(any::<u16>(), 20..300),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
    );
    let mut same = 0;
    for _ in 0..TRACES {
        let (program, choices, damage) = damaged.new_tree(&mut runner).unwrap().current();
        let code = Code::new(&program);
        let mut trace = run(&code, &choices, true).trace;
        for (at, byte) in damage {
            let at = at.index(trace.len());
            trace[at] = byte;
        }
        let image = Image::new([(BASE, code.bytes.as_slice())]);
        let (ours, theirs) = (ours(&image, &trace), theirs(&image, &trace));
        same += usize::from(ours.instructions() == theirs.instructions());
    }
    assert!(
        same * 100 >= TRACES * 90,
        "{same} of {TRACES} damaged traces are the same to both decoders"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) })]

    #[test]
    fn whole_or_in_pieces(
        program in programs(),
        choices in prop::collection::vec(any::<u16>(), 0..600),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let code = Code::new(&program);
        let mut trace = run(&code, &choices, true).trace;
        // Long enough to be worth cutting.
        trace = trace.repeat(1 + (200 << 10) / trace.len());
        for (at, byte) in damage {
            let at = at.index(trace.len());
            trace[at] = byte;
        }
        let image = Image::new([(BASE, code.bytes.as_slice())]);
        let pieces = parallel::decode(&image, &trace, NonZero::new(3).unwrap(), Summary::default);
        let mut whole = Summary::default();
        pt_driver_client::flow::Decoder::new(&image).decode(&trace, &mut whole);
        prop_assert!(pieces.len() > 1 || next_psb(&trace, trace.len() / 3).is_none());
        let total: u64 = pieces.iter().map(|piece| piece.instructions).sum();
        prop_assert_eq!(total, whole.instructions);
        let gaps: Vec<_> = pieces.iter().flat_map(|piece| piece.gaps.clone()).collect();
        prop_assert_eq!(gaps, whole.gaps);
    }
}
