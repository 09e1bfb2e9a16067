//! A trace and the code that it is said to be of: decoded, recorded, and the packets written anew.
#![no_main]

use failsketch_fuzz::split;
use pt_driver_client::code::Image;
use pt_driver_client::config::{Config, Erratum};
use pt_driver_client::flow::{Decoder, Interest};
use pt_driver_client::packet::{encode, parse};

/// Two pieces at these addresses, so that code crosses a border and jumps between them.
const ADDRESSES: [u64; 2] = [0x40_0000, 0x7fff_f7dd_0000];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (trace, code) = split(input);
    let mut at = 0;
    while let Ok((packet, size)) = parse(&trace[at..], None) {
        let mut bytes = Vec::new();
        encode(packet, &mut bytes);
        assert_eq!(parse(&bytes, None), Ok((packet, bytes.len())));
        at += size;
    }
    // The last byte of the code says which errata are expected: their workarounds look ahead.
    let sick = code.last().copied().unwrap_or_default();
    let errata = Erratum::ALL.into_iter().filter(|&erratum| sick >> (erratum as u8 % 8) & 1 != 0);
    let config = Config { errata: errata.collect(), ..Config::default() };
    let (first, second) = code.split_at(code.len() / 2);
    let next = ADDRESSES[0] + first.len() as u64;
    for pieces in [[(ADDRESSES[0], first), (next, second)], [(ADDRESSES[0], first), (ADDRESSES[1], second)]] {
        let image = Image::new(pieces);
        let mut decoder = Decoder::with(&image, config);
        let interest = Interest::everything().at_most(1 << 16);
        let flow = decoder.thread_flow(trace, &interest);
        assert_eq!(decoder.thread_flow(trace, &interest), flow);
    }
});
