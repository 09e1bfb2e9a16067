//! Traces and code that are wrong in every way: what is said of them ends, and is bounded.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use pt_driver_client::code::{BlockId, Blocks, Image};
use pt_driver_client::config::{Config, Erratum};
use pt_driver_client::flow::{Consumer, Decoder, Gap, Interest, Part, ThreadFlow};
use support::machine::{BASE, Code, programs, run};
use support::scenario;

/// Short traces, so that many can be tried.
fn samples(count: usize) -> Vec<(Code, Vec<u8>)> {
    let mut runner = TestRunner::deterministic();
    let choices = prop::collection::vec(any::<u16>(), 10..60);
    let mut sample = || {
        let (program, choices) = (programs(), &choices).new_tree(&mut runner).unwrap().current();
        let code = Code::new(&program);
        let trace = run(&code, &choices, true).trace;
        (code, trace)
    };
    (0..count).map(|_| sample()).collect()
}

/// Decodes; gaps lie in the trace, one after the other.
fn decode(image: &Image<'_>, trace: &[u8]) -> ThreadFlow {
    decode_with(image, trace, Config::default())
}

fn decode_with(image: &Image<'_>, trace: &[u8], config: Config) -> ThreadFlow {
    let flow = Decoder::with(image, config).thread_flow(trace, &Interest::everything());
    let mut last = 0;
    for gap in flow.gaps() {
        assert!(
            last <= gap.from && gap.from <= gap.to && gap.to <= trace.len() as u64,
            "{gap:?}"
        );
        last = gap.to;
    }
    flow
}

#[test]
fn every_beginning_of_a_trace() {
    for (code, trace) in samples(20) {
        let image = Image::new([(BASE, code.bytes.as_slice())]);
        for length in 0..=trace.len() {
            decode(&image, &trace[..length]);
        }
    }
}

#[test]
fn every_beginning_of_every_scenario() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    for file in std::fs::read_dir(folder).unwrap() {
        let scenario = scenario::read(&std::fs::read_to_string(file.unwrap().path()).unwrap());
        let image = Image::new([(scenario.base, scenario.code.as_slice())]);
        // With every erratum expected as well: they look ahead.
        let sick = Config {
            errata: Erratum::ALL.into_iter().collect(),
            ..scenario.config
        };
        for length in 0..=scenario.trace.len() {
            decode_with(&image, &scenario.trace[..length], scenario.config);
            decode_with(&image, &scenario.trace[..length], sick);
        }
    }
}

/// Counts blocks.
#[derive(Default)]
struct Count {
    blocks: usize,
    gaps: usize,
}

impl Consumer for Count {
    const EVENTS: bool = true;

    fn blocks(&mut self, _: &Blocks<'_>, blocks: &[BlockId]) {
        self.blocks += blocks.len();
    }

    fn part(&mut self, _: &Blocks<'_>, _: Part) {
        self.blocks += 1;
    }

    fn gap(&mut self, _: Gap) {
        self.gaps += 1;
    }
}

/// Code that leads through itself for long without a branch, and a trace that asks for that again and again: what is
/// told stays in proportion to the trace.
#[test]
fn long_ways_end() {
    const CODE: usize = 1 << 15;
    let jump_to_next = [0xeb, 0x00];
    let mut long = jump_to_next.repeat(CODE / 2);
    let circle = {
        let mut code = long.clone();
        let back = (-(CODE as i32) - 5).to_le_bytes();
        code.extend([0xe9].into_iter().chain(back));
        code
    };
    let mut writes_cr3 = vec![0x0f, 0x22, 0xd8];
    writes_cr3.extend(&circle);
    // Nothing but instructions to look at, block after block.
    let plain = vec![0x90; CODE / 8];
    // A branch at the end: a way through everything for each outcome.
    long.extend([0x0f, 0x84].into_iter().chain((-(CODE as i32) - 6).to_le_bytes()));
    let start = "packets\npsb\nmode.64\npsbend\ntip.pge 3 0x5555555010\n";
    let again = [
        "tnt tttttt\n".to_owned(),
        "fup 1 0x5555\ntip 1 0x5010\n".to_owned(),
        "tip.pgd 0\ntip.pge 3 0x5555555010\n".to_owned(),
        "tip 1 0x5010\n".to_owned(),
        "ptw\n".to_owned(),
        "ptw.ip\nfup 1 0x5555\n".to_owned(),
        format!("{start}pip 0x1000\ntip.pgd 0\n").replace("packets\n", ""),
        format!("{start}tnt t\n").replace("packets\n", ""),
    ];
    for code in [long, circle, writes_cr3, plain] {
        for again in &again {
            let trace = scenario::read(&format!("{start}{}", again.repeat(500))).trace;
            let image = Image::new([(BASE, code.as_slice())]);
            let mut count = Count::default();
            Decoder::new(&image).decode(&trace, &mut count);
            let most = (2 << 20) + 200 * trace.len();
            assert!(
                count.blocks <= most,
                "{} blocks of {} bytes",
                count.blocks,
                trace.len()
            );
        }
    }
}

/// A thousand small traces of one process are no way to have a thousand times as much told.
#[test]
fn many_traces_share_their_long_ways() {
    const JUMPS: usize = 1 << 15;
    let mut code = [0xeb, 0x00].repeat(JUMPS);
    let back = -(code.len() as i32) - 6;
    code.extend([0x0f, 0x84].into_iter().chain(back.to_le_bytes()));
    let image = Image::new([(0x1000, code.as_slice())]);
    let text = "packets\npsb\nmode.64\npsbend\ntip.pge 3 0x1000\n".to_owned();
    let trace = scenario::read(&(text + &"tnt tttttt\n".repeat(20))).trace;
    let mut decoder = Decoder::new(&image);
    let mut count = Count::default();
    for _ in 0..1000 {
        decoder.decode(&trace, &mut count);
    }
    let most = (2 << 20) + 1000 * 64 * trace.len();
    assert!(count.blocks <= most, "{} blocks", count.blocks);
    assert!(count.blocks >= 1 << 20, "and what there is of them is told");
}

/// Steps of every length fill what waits for the consumer, whatever was there before.
#[test]
fn steps_of_many_blocks() {
    for jumps in [1, 7, 9, 14, 16, 100, 300] {
        // So many jumps, and a branch back to the first.
        let mut code = [0xeb, 0x00].repeat(jumps);
        let back = -(code.len() as i32) - 6;
        code.extend([0x0f, 0x84].into_iter().chain(back.to_le_bytes()));
        let image = Image::new([(0x1000, code.as_slice())]);
        let text = "packets\npsb\nmode.64\npsbend\ntip.pge 3 0x1000\n".to_owned();
        let trace = scenario::read(&(text + &"tnt tt\ntnt ttttt\ntnt t\ntnt tttttt\n".repeat(50))).trace;
        let mut count = Count::default();
        Decoder::new(&image).decode(&trace, &mut count);
        let outcomes = 50 * (2 + 5 + 1 + 6);
        // The last way is known to its end as well.
        assert_eq!(
            (count.blocks, count.gaps),
            ((outcomes + 1) * (jumps + 1), 0),
            "{jumps}"
        );
    }
}

#[test]
fn a_hundred_thousand_mutations() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 16) as usize % below.max(1)
    };
    for (code, trace) in samples(100) {
        for _ in 0..1000 {
            let (mut bytes, mut trace) = (code.bytes.clone(), trace.clone());
            for _ in 0..=random(4) {
                let at = random(trace.len());
                match random(4) {
                    0 => trace[at] = random(256) as u8,
                    1 => trace[at] ^= 1 << random(8),
                    2 => drop(trace.drain(at..trace.len().min(at + random(20)))),
                    _ => {
                        let place = random(bytes.len());
                        if let Some(byte) = bytes.get_mut(place) {
                            *byte = random(256) as u8;
                        }
                    }
                }
                if trace.is_empty() {
                    break;
                }
            }
            let errata = Erratum::ALL.into_iter().filter(|_| random(2) == 0).collect();
            let config = Config {
                errata,
                ..Config::default()
            };
            decode_with(&Image::new([(BASE, bytes.as_slice())]), &trace, config);
        }
    }
}

#[test]
fn wrong_and_missing_code() {
    for (code, trace) in samples(50) {
        let half = code.bytes.len() / 2;
        let (first, second) = code.bytes.split_at(half);
        let moved = BASE + half as u64;
        let noise = vec![0xeb; code.bytes.len()];
        let zeros = vec![0; code.bytes.len()];
        decode(&Image::new([]), &trace);
        decode(&Image::new([(BASE, first)]), &trace);
        decode(&Image::new([(moved, second)]), &trace);
        decode(&Image::new([(BASE, second), (moved, first)]), &trace);
        decode(&Image::new([(BASE, noise.as_slice())]), &trace);
        decode(&Image::new([(BASE, zeros.as_slice())]), &trace);
        // In two pieces it is the same code.
        let whole = decode(&Image::new([(BASE, code.bytes.as_slice())]), &trace);
        assert_eq!(
            decode(&Image::new([(BASE, first), (moved, second)]), &trace),
            whole
        );
    }
}
