//! Everything that real traces have, in random order, over random and over real code: both decoders say what ran.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use program::elf::{Elf, SymbolKind};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use pt_driver_client::code::Image;
use pt_driver_client::flow::Why;
use support::machine::{BASE, Code, programs};
use support::processor::{Run, Setup, run};
use support::{Item, Said, ours, theirs};

/// How a decoder differs from what ran, if it does.
fn difference(who: &str, said: &Said, run: &Run) -> Option<String> {
    let ran = said.instructions();
    let errors: Vec<_> = said.gaps.iter().filter(|gap| gap.why != Why::Overflow).collect();
    let same = ran.iter().zip(&run.ran).take_while(|(a, b)| a == b).count();
    let lost = said.gaps.len() - errors.len();
    if ran == run.ran && errors.is_empty() && lost == run.overflows {
        return None;
    }
    let around = |list: &[u64]| format!("{:x?}", &list[same.saturating_sub(3)..list.len().min(same + 5)]);
    Some(format!(
        "{who}: {} of {} ran, the same up to {same}: {} not {}; {lost} of {} overflows; {errors:?}",
        ran.len(),
        run.ran.len(),
        around(&ran),
        around(&run.ran),
        run.overflows,
    ))
}

fn check(setup: Setup<'_>, seed: u64, stretches: usize) {
    let run = run(setup, seed, stretches);
    let image = Image::new([(setup.base, setup.code)]);
    let (ours, theirs) = (ours(&image, &run.trace), theirs(&image, &run.trace));
    let wrong: Vec<String> = [("libipt", &theirs), ("ours", &ours)]
        .into_iter()
        .filter_map(|(who, said)| difference(who, said, &run))
        .collect();
    assert!(wrong.is_empty(), "seed {seed:#x}\n{}", wrong.join("\n"));
}

/// Makes seeds of small numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Code of 32 bits is below 4 GiB.
const LOW: u64 = 0x5555_5000;

#[test]
fn on_random_code_of_both_widths() {
    let mut runner = TestRunner::deterministic();
    for seed in 1..400_u64 {
        let program = programs().new_tree(&mut runner).unwrap().current();
        let code = Code::new(&program);
        let entries: Vec<u64> = code.starts().map(|start| start - BASE + LOW).collect();
        let setup = Setup {
            base: LOW,
            code: &code.bytes,
            entries: &entries,
            compressed: seed % 2 == 0,
            narrow: seed % 3 == 0,
        };
        check(setup, seed.wrapping_mul(GOLDEN), 300);
    }
}

/// The C library's code, which has everything that compilers and people write: vectors, string instructions, jump tables.
#[test]
fn on_real_code() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_libc = |path: &&str| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("libc."))
    };
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(is_libc);
    let file = std::fs::read(path.unwrap()).unwrap();
    let elf = Elf::parse(&file).unwrap();
    let text = elf.segments().executable().into_iter().next().unwrap();
    let code = elf.bytes_at(text.start, text.end.0 - text.start.0).unwrap();
    let functions = elf
        .dynsym()
        .defined()
        .filter(|symbol| symbol.kind == SymbolKind::Function);
    let entries: Vec<u64> = functions
        .map(|symbol| symbol.addr)
        .filter(|addr| text.contains(addr))
        .map(|addr| addr.0 + LOW)
        .collect();
    assert!(entries.len() > 1000, "{} functions in {path:?}", entries.len());
    for seed in 1..30_u64 {
        let setup = Setup {
            base: text.start.0 + LOW,
            code,
            entries: &entries,
            compressed: seed % 2 == 0,
            narrow: false,
        };
        check(setup, seed.wrapping_mul(GOLDEN), 2000);
    }
}

/// Pages that nobody kept: both decoders know the same up to where the program goes there. How far they have read ahead by
/// then is their own matter, and so is the PSB that they go on with.
#[test]
fn on_what_ran_before_code_that_is_missing() {
    let mut runner = TestRunner::deterministic();
    let mut missed = 0;
    for seed in 1..300_u64 {
        let program = programs().new_tree(&mut runner).unwrap().current();
        let code = Code::new(&program);
        let entries: Vec<u64> = code.starts().map(|start| start - BASE + LOW).collect();
        let setup = Setup {
            base: LOW,
            code: &code.bytes,
            entries: &entries,
            compressed: true,
            narrow: false,
        };
        let run = run(setup, seed.wrapping_mul(GOLDEN), 300);
        let from = code.bytes.len() / 3;
        let (first, rest) = code.bytes.split_at(from);
        let hole = rest.len().min(1 + seed as usize % 40);
        let image = Image::new([(LOW, first), (LOW + (from + hole) as u64, &rest[hole..])]);
        let [ours, theirs] = [ours(&image, &run.trace), theirs(&image, &run.trace)].map(|said| {
            let before = said.items.into_iter();
            let before = before.take_while(|item| matches!(item, Item::Ran(_) | Item::Gap(Why::Overflow)));
            (before.collect::<Vec<_>>(), said.gaps)
        });
        let same = ours.0.iter().zip(&theirs.0).take_while(|(a, b)| a == b).count();
        // Where packets were lost right behind code that is missing, only one of the two is told first.
        let ends_alike = same == ours.0.len() && same == theirs.0.len()
            || ours.0.get(same) == Some(&Item::Gap(Why::Overflow)) && same == theirs.0.len();
        assert!(
            ends_alike,
            "seed {seed}: the same up to {same} of {} and {}",
            ours.0.len(),
            theirs.0.len()
        );
        missed += ours.1.iter().filter(|gap| gap.why == Why::NoCode).count();
    }
    assert!(missed > 300, "code was missing {missed} times");
}
