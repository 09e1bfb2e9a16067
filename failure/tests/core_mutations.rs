//! Damaged cores and damaged binaries: whatever the bytes, an answer comes, soon, in bounded memory.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use failure::Report;
use failure::core_dump::CoreDump;
use failure::image::{Limits, Memory as _, ModuleFiles, report};
use program::BuildId;
use proptest::prelude::*;
use support::real::{Folder, NoFiles, build, crash};
use support::synth::{CODE, Core, RW, RX, Regs, library};

/// A small static program, and the core it left in a signal handler.
static CRASH: LazyLock<Option<(Vec<u8>, Vec<u8>)>> = LazyLock::new(|| {
    let folder = Folder::new();
    let program = build(&folder, "gcc", &["-O2", "-static", "-s"]);
    let core = crash(&program, &["handler", "alone"])?;
    Some((fs::read(program).unwrap(), core))
});

/// Where in that core's file the failing thread's stack is.
static STACK: LazyLock<usize> = LazyLock::new(|| {
    let core = CRASH.as_ref().map_or(&[][..], |(_, core)| core);
    let dump = CoreDump::parse(core).unwrap();
    let top = program::RunAddr(dump.threads()[0].registers.rsp);
    let stack = dump.read(top, 4096).unwrap();
    core.windows(4096).position(|window| *window == *stack).unwrap()
});

struct Only<'a>(&'a [u8]);

impl ModuleFiles for Only<'_> {
    fn module(&self, _: &str, _: Option<&BuildId>) -> Option<&[u8]> {
        Some(self.0)
    }
}

/// Reads a core to the end and holds the result against what is promised for any input.
fn survive(core: &[u8], files: &dyn ModuleFiles) -> Option<Report> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let start = Instant::now();
    let found = CoreDump::parse(core)
        .ok()
        .map(|dump| report(&dump, files, Limits::default()));
    assert!(start.elapsed() < PATIENCE, "took {:?}", start.elapsed());
    if let Some(report) = &found {
        assert!(report.failing < report.threads.len());
        assert!(
            report
                .threads
                .iter()
                .all(|thread| (1..=256).contains(&thread.frames.len()))
        );
        assert!(report.notes.len() <= 41);
    }
    found
}

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..=32_u64,
        Just(u64::MAX),
        Just(u64::MAX - 7),
        Just(1 << 63),
        Just(u64::from(u32::MAX)),
        (12..48_u32).prop_map(|bits| (1 << bits) - 1),
    ]
}

/// Writes values over the bytes, each at a place given as a share of the first `reach` bytes.
fn damaged(bytes: &[u8], reach: usize, edits: &[(u16, u64, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let reach = reach.min(bytes.len());
    for &(place, value, width) in edits {
        let at = usize::from(place) * reach / usize::from(u16::MAX);
        for (index, byte) in value
            .to_le_bytes()
            .into_iter()
            .take(usize::from(width))
            .enumerate()
        {
            if let Some(target) = bytes.get_mut(at + index) {
                *target = byte;
            }
        }
    }
    bytes
}

fn edits() -> impl Strategy<Value = Vec<(u16, u64, u8)>> {
    proptest::collection::vec((any::<u16>(), interesting(), 1..=8_u8), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_headers_and_notes(edits in edits()) {
        let Some((program, core)) = &*CRASH else { return Ok(()) };
        survive(&damaged(core, 6000, &edits), &Only(program));
    }

    #[test]
    fn damaged_memory(edits in edits()) {
        let Some((program, core)) = &*CRASH else { return Ok(()) };
        survive(&damaged(core, core.len(), &edits), &Only(program));
    }

    #[test]
    fn damaged_stack(edits in proptest::collection::vec((0..1024_usize, interesting()), 1..64)) {
        let Some((program, core)) = &*CRASH else { return Ok(()) };
        let at = *STACK;
        let mut damaged = core.clone();
        for (word, value) in edits {
            let at = at + word * 8;
            if let Some(target) = damaged.get_mut(at..at + 8) {
                target.copy_from_slice(&value.to_le_bytes());
            }
        }
        prop_assert!(survive(&damaged, &Only(program)).is_some());
    }

    #[test]
    fn damaged_program_headers(edits in edits()) {
        let Some((program, core)) = &*CRASH else { return Ok(()) };
        survive(core, &Only(&damaged(program, 700, &edits)));
    }

    #[test]
    fn damaged_unwind_information(edits in proptest::collection::vec((any::<u16>(), interesting(), 1..=8_u8), 100..2000)) {
        let Some((program, core)) = &*CRASH else { return Ok(()) };
        let tail = program.len() / 2;
        let damaged = [&program[..tail], &damaged(&program[tail..], program.len(), &edits)].concat();
        survive(core, &Only(&damaged));
    }

    #[test]
    fn cut_anywhere(share in 0.0..1.0_f64) {
        let Some((program, core)) = &*CRASH else { return Ok(()) };
        let len = (core.len() as f64 * share) as usize;
        survive(&core[..len], &Only(program));
        survive(core, &Only(&program[..(program.len() as f64 * share) as usize]));
    }

    #[test]
    fn any_notes(
        kinds in proptest::collection::vec((prop_oneof![Just(1_u32), Just(3), Just(6), Just(0x4649_4c45), Just(0x5349_4749)],
            proptest::collection::vec(any::<u8>(), 0..400)), 0..8),
        regs in (interesting(), interesting(), interesting()),
        loads in proptest::collection::vec((interesting(), interesting(), prop_oneof![Just(RW), Just(RX)],
            proptest::collection::vec(any::<u8>(), 0..200)), 0..6),
    ) {
        let mut core = Core::default().thread(1, 11, Regs { rip: regs.0, rsp: regs.1, rbp: regs.2 });
        for (kind, content) in &kinds {
            core = core.note("CORE", *kind, content);
        }
        for (start, size, flags, bytes) in &loads {
            core = core.load(*start, *size, *flags, bytes);
        }
        prop_assert!(survive(&core.build(), &NoFiles).is_some());
    }

    #[test]
    fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..4096), elf in any::<bool>()) {
        if elf && bytes.len() > 64 {
            bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0");
        }
        survive(&bytes, &Only(&bytes));
    }
}

/// Many threads, each with as many frames as it may have, out of a file that has them only once.
#[test]
fn a_small_core_with_many_deep_stacks_stays_small() {
    const BASE: u64 = 0x7000_0000;
    const STACK: u64 = 0x8000_0000;
    let before = peak();
    let mut core = Core::default()
        .files(4096, &[(BASE, BASE + 4096, 0, "/lib/x.so")])
        .load(BASE, 4096, RX, &library(&[1; 20], b"\xe8\0\0\0\0\x90"));
    for tid in 0..10_000 {
        core = core.thread(
            tid,
            11,
            Regs {
                rip: BASE + CODE,
                rsp: STACK,
                rbp: STACK,
            },
        );
    }
    let chain = (1..=300).flat_map(|depth| [STACK + depth * 16, BASE + CODE + 5]);
    let core = core.words(STACK, &chain.collect::<Vec<_>>());
    let found = survive(&core.build(), &NoFiles).unwrap();
    assert_eq!(found.threads.len(), 4096);
    assert_eq!(found.threads[0].frames.len(), 256);
    let frames: usize = found.threads.iter().map(|thread| thread.frames.len()).sum();
    assert!((65_536..=65_536 + 4096).contains(&frames), "{frames}");
    assert!(peak() - before < 150 << 10, "grew by {} KiB", peak() - before);
}

/// Modules with as many program headers as fit, a hundred thousand more that claim the same pages, and a
/// name without end in every frame.
#[test]
fn a_small_core_with_many_modules_stays_small() {
    const BASE: u64 = 0x7000_0000;
    let before = peak();
    let mut image = library(&[1; 20], b"");
    image[56..58].copy_from_slice(&40_000_u16.to_le_bytes());
    let long = "x".repeat(1 << 20);
    let names: Vec<String> = (0..100_000).map(|index| format!("/{index}")).collect();
    let pages = (0..1000).cycle().map(|index| BASE + index * 4096);
    let mut files: Vec<_> = pages
        .zip(&names)
        .map(|(at, name)| (at, at + 4096, 0, name.as_str()))
        .collect();
    files[0].3 = &long;
    let mut core = Core::default()
        .files(4096, &files)
        .load(BASE, 1000 * 4096, RX, &image.repeat(1000));
    for tid in 0..4096 {
        core = core.thread(
            tid,
            11,
            Regs {
                rip: BASE + CODE,
                rsp: 8,
                rbp: 8,
            },
        );
    }
    let found = survive(&core.build(), &NoFiles).unwrap();
    assert_eq!(found.threads.len(), 4096);
    assert!(peak() - before < 200 << 10, "grew by {} KiB", peak() - before);
}
