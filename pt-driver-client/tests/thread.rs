//! What one thread did, in order.

mod support;

use std::num::NonZero;

use proptest::prelude::*;
use pt_driver_client::code::{Exit, Image};
use pt_driver_client::config::{Clock, Config};
use pt_driver_client::flow::{Branch, Decoder, FlowEvent, Gap, Interest, ThreadFlow, Time, Why};
use support::machine::{BASE, Code, programs, run};
use support::scenario::{self, Scenario};

const TWO_FUNCTIONS: &str = "
    code 0x1000
    start: nop              # 1000
           je   there       # 1001
           nop              # 1007
    there: call function    # 1008
    after: jmp* rax         # 100d
    function: ret           # 100f
    packets
    psb
    tsc 100
    psbend
    tip.pge 3 start
    tnt tt
    tsc 200
    tip 1 start
    tnt n
    fup 1 there
    tip 1 after
    tip.pgd 0
    ovf
    flow
    start
";

fn flow(scenario: &Scenario, interest: &Interest) -> ThreadFlow {
    let image = Image::new([(scenario.base, scenario.code.as_slice())]);
    Decoder::new(&image).thread_flow(&scenario.trace, interest)
}

fn at(ticks: u64) -> Option<Time> {
    Some(Time {
        estimated: ticks,
        told: ticks,
    })
}

fn block(start: u64, end: u64, ticks: u64) -> FlowEvent {
    let time = at(ticks);
    FlowEvent::Block { start, end, time }
}

fn branch(pc: u64, exit: Exit, to: Option<u64>, ticks: u64) -> FlowEvent {
    let time = at(ticks);
    FlowEvent::Branch(Branch { pc, exit, to, time })
}

fn overflow(scenario: &Scenario, ticks: u64) -> FlowEvent {
    let to = scenario.trace.len() as u64;
    let gap = Gap {
        from: to - 2,
        to,
        why: Why::Overflow,
    };
    FlowEvent::Gap { gap, time: at(ticks) }
}

#[test]
fn everything_comes_in_order() {
    let scenario = scenario::read(TWO_FUNCTIONS);
    let expected = vec![
        FlowEvent::On {
            at: 0x1000,
            time: at(100),
        },
        block(0x1000, 0x1007, 100),
        branch(0x1001, Exit::Cond(0x1008), Some(0x1008), 100),
        block(0x1008, 0x100d, 100),
        branch(0x1008, Exit::Call(0x100f), Some(0x100f), 100),
        block(0x100f, 0x1010, 100),
        branch(0x100f, Exit::Return, Some(0x100d), 100),
        block(0x100d, 0x100f, 200),
        branch(0x100d, Exit::IndirectJump, Some(0x1000), 200),
        block(0x1000, 0x1007, 200),
        branch(0x1001, Exit::Cond(0x1008), Some(0x1007), 200),
        block(0x1007, 0x1008, 200),
        FlowEvent::Interrupted {
            from: 0x1008,
            to: 0x100d,
            time: at(200),
        },
        block(0x100d, 0x100f, 200),
        branch(0x100d, Exit::IndirectJump, None, 200),
        FlowEvent::Off {
            to: None,
            time: at(200),
        },
        overflow(&scenario, 200),
    ];
    let flow = flow(&scenario, &Interest::everything());
    assert_eq!(flow.events, expected);
    let taken: Vec<_> = flow.branches().filter_map(Branch::taken).collect();
    assert_eq!(taken, [true, false]);
}

#[test]
fn only_what_is_asked_for_comes() {
    let scenario = scenario::read(TWO_FUNCTIONS);
    // The function, and the branch without the instruction before it.
    let interest = Interest::ranges([0x100f..0x1010, 0x1001..0x1007]);
    let expected = [
        block(0x1000, 0x1007, 100),
        branch(0x1001, Exit::Cond(0x1008), Some(0x1008), 100),
        block(0x100f, 0x1010, 100),
        branch(0x100f, Exit::Return, Some(0x100d), 100),
        block(0x1000, 0x1007, 200),
        branch(0x1001, Exit::Cond(0x1008), Some(0x1007), 200),
        overflow(&scenario, 200),
    ];
    assert_eq!(flow(&scenario, &interest).events, expected);
    assert_eq!(
        flow(&scenario, &Interest::ranges([])).events,
        [overflow(&scenario, 200)]
    );
}

#[test]
fn the_last_events_are_kept() {
    let scenario = scenario::read(TWO_FUNCTIONS);
    let all = flow(&scenario, &Interest::everything()).events;
    for most in [0, 1, 5, 100] {
        let some = flow(&scenario, &Interest::everything().at_most(most));
        let kept = most.min(all.len());
        assert_eq!(some.events, all[all.len() - kept..]);
        assert_eq!(some.left_out, (all.len() - kept) as u64);
    }
}

#[test]
fn time_goes_on_between_two_timestamps() {
    let scenario = scenario::read(
        "
        code 0x1000
        start: nop
               jmp* rax
        packets
        psb
        tsc 1000
        raw 02 73 10 00 00 05 00    # TMA: the crystal at 16, five ticks ago
        cbr 20
        psbend
        tip.pge 3 start
        tip 1 start                 # 1000
        mtc 3                       # the crystal at 24, eight ticks of it after TMA: 995 + 8 * 3
        tip 1 start
        cyc 10                      # ten cycles of half the nominal frequency
        tip 1 start
        tsc 2000
        tip 1 start
        flow
        start
        ",
    );
    let image = Image::new([(scenario.base, scenario.code.as_slice())]);
    let clock = Clock {
        mtc_frequency: 3,
        tsc_per_crystal: NonZero::new(3).zip(NonZero::new(1)),
        nominal_ratio: NonZero::new(40),
    };
    let config = Config {
        clock,
        ..Config::default()
    };
    let flow =
        Decoder::with(&image, config).thread_flow(&scenario.trace, &Interest::ranges(Some(0x1001..0x1002)));
    let times: Vec<_> = flow
        .branches()
        .filter_map(|branch| branch.time)
        .map(|time| (time.told, time.estimated))
        .collect();
    assert_eq!(
        times,
        [
            (1000, 1000),
            (1000, 1019),
            (1000, 1039),
            (2000, 2000),
            (2000, 2000)
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Each block is where the branch before it went, and parts are parts of the whole.
    #[test]
    fn branches_lead_to_blocks(
        program in programs(),
        choices in prop::collection::vec(any::<u16>(), 0..300),
        from in 0_u64..200,
        length in 0_u64..100,
    ) {
        let code = Code::new(&program);
        let trace = run(&code, &choices, true).trace;
        let image = Image::new([(BASE, code.bytes.as_slice())]);
        let mut decoder = Decoder::new(&image);
        let whole = decoder.thread_flow(&trace, &Interest::everything());
        for pair in whole.events.windows(2) {
            if let [FlowEvent::Branch(branch), FlowEvent::Block { start, .. }] = pair {
                prop_assert_eq!(branch.to, Some(*start));
            }
        }
        let range = BASE + from..BASE + from + length;
        let part = decoder.thread_flow(&trace, &Interest::ranges(Some(range.clone())));
        let expected: Vec<&Branch> = whole.branches().filter(|branch| range.contains(&branch.pc)).collect();
        prop_assert_eq!(part.branches().collect::<Vec<_>>(), expected);
    }
}
