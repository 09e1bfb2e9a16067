//! Every way to touch memory, on the real processor.

use tracee::ptrace::End;
use watchpoint::{Hit, Mode, Trigger};

use crate::support::can_watch;
use crate::watched::{Outcome, Program, launch};

const FULL: u64 = 0x1111_1111_1111_1111;

/// Label, access, before, after: `u64::MAX` for whatever it is. Values that every mode tells.
const FORMS: [(&str, &str, u64, u64); 17] = [
    ("store", "W", 0, 5),
    ("load", "R", 5, 5),
    ("ownbase", "R", 5, 5),
    ("incr", "RW", 5, 6),
    ("add", "RW", 6, 16),
    ("xadd", "RW", 16, 20),
    ("xchg", "RW", 20, 7),
    ("cas", "RW", 7, 8),
    ("casfail", "R", 8, 8),
    ("cas16", "RW", 8, 9),
    ("comp", "R", 9, 9),
    ("byte", "W", 9, 0x109),
    ("pushm", "R", 0x109, 0x109),
    ("popm", "W", 0x109, 0x109),
    ("vecload", "R", 0x109, 0x109),
    ("vecstore", "W", 0x109, 0),
    ("movs", "W", 0, 0x4847_4645_4443_4241),
];

/// Those after the string, whose hits the processor may put together.
const LAST: [(&str, &str); 5] = [
    ("callm", "R"),
    ("jmpm", "R"),
    ("setcc", "W"),
    ("wide", "W"),
    ("jmpin", "R"),
];

fn run(program: &Program, mode: Mode) -> Outcome {
    let spot = program.global("spot", 8, Trigger::ReadWrite);
    let outcome = launch(program, &[], vec![spot], mode);
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!(outcome.summary.lost, 0);
    outcome
}

/// The label of a hit's instruction.
fn label<'p>(program: &'p Program, outcome: &Outcome, hit: &Hit) -> &'p str {
    let pc = hit.pc.expect("every instruction is found").0 - outcome.bias;
    let named = program.symbols.iter().find(|(_, addr)| **addr == pc);
    named.map_or("no label", |(name, _)| name)
}

fn check(mode: Mode) {
    let program = Program::compile("forms.s", "");
    let outcome = run(&program, mode);
    let mut hits = outcome.hits.iter().filter(|hit| {
        // Set-up that is not of interest has no label.
        label(&program, &outcome, hit) != "no label"
    });
    for (name, access, before, after) in FORMS {
        let hit = hits.next().unwrap_or_else(|| panic!("no hit for {name}"));
        let shown = (
            label(&program, &outcome, hit),
            hit.access.map(|access| access.to_string()),
            hit.before.map(|before| before.bits),
            hit.value.map(|value| value.bits),
        );
        assert_eq!(
            shown,
            (name, Some(access.to_owned()), Some(before), Some(after)),
            "{mode}"
        );
        assert!(hit.pc_or.is_empty(), "{name} in {mode}: {hit:x?}");
    }
    let rest: Vec<&Hit> = hits.collect();
    let (string, last): (Vec<&Hit>, Vec<&Hit>) = rest
        .into_iter()
        .partition(|hit| label(&program, &outcome, hit) == "reps");
    assert!(
        (1..=8).contains(&string.len()),
        "{} hits of the string",
        string.len()
    );
    assert_eq!(
        string.last().and_then(|hit| hit.value).map(|value| value.bits),
        Some(FULL),
        "{mode}"
    );
    let shown: Vec<(&str, Option<String>)> = last
        .iter()
        .map(|hit| {
            let access = hit.access.map(|access| access.to_string());
            (label(&program, &outcome, hit), access)
        })
        .collect();
    let want = LAST.map(|(name, access)| (name, Some(access.to_owned())));
    assert_eq!(shown, want, "{mode}");
    // What was called is where the thread went.
    let target = program.symbols["target"] + outcome.bias;
    assert_eq!(last[0].value.map(|value| value.bits), Some(target));
    assert_eq!(last[1].value.map(|value| value.bits), Some(target));
    assert_eq!(last[2].value.map(|value| value.bits & 0xff), Some(1));
}

#[test]
fn exact() {
    if !can_watch() {
        return;
    }
    check(Mode::Exact);
}

#[test]
fn observe() {
    if !can_watch() {
        return;
    }
    check(Mode::Observe);
}

#[test]
fn compat() {
    if !can_watch() {
        return;
    }
    check(Mode::Compat);
}
