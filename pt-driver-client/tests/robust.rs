//! Traces and code that are wrong in every way: what is said of them ends, and is bounded.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use pt_driver_client::code::Image;
use pt_driver_client::flow::{Decoder, Interest, ThreadFlow};
use support::machine::{BASE, Code, programs, run};

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
    let flow = Decoder::new(image).thread_flow(trace, &Interest::everything());
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
            decode(&Image::new([(BASE, bytes.as_slice())]), &trace);
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
