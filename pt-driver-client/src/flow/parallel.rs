//! The pieces of a long trace on several processors.
//!
//! A trace can be decoded from each of its PSBs on: the processor compresses no address and no return across one.

use std::num::NonZero;
use std::ops::Range;

use super::consumer::Consumer;
use super::decoder::Decoder;
use crate::code::Image;
use crate::packet::next_psb;

/// Shorter pieces are not worth reading the code once more.
const SHORTEST: usize = 64 << 10;

/// Decodes a trace in as many pieces as there are threads, at most. Each piece has a consumer of its own; they come
/// back in the order of the trace, and what they were told, one after the other, is what one would have been told.
pub fn decode<C: Consumer + Send>(
    image: &Image<'_>,
    trace: &[u8],
    threads: NonZero<usize>,
    consumer: impl Fn() -> C + Sync,
) -> Vec<C> {
    let pieces = pieces(trace, threads);
    let decode = |piece: Range<usize>| {
        let mut consumer = consumer();
        Decoder::new(image).decode_range(trace, piece, &mut consumer);
        consumer
    };
    let decode = &decode;
    let mut done: Vec<Option<C>> = pieces.iter().map(|_| None).collect();
    // On threads that are there already: a small trace is decoded in less than a millisecond, of which starting one is a
    // part, and the memory of a new one is new to it as well.
    rayon::in_place_scope(|scope| {
        let mut work = pieces.into_iter().zip(&mut done);
        let first = work.next();
        for (piece, done) in work {
            scope.spawn(move |_| *done = Some(decode(piece)));
        }
        if let Some((piece, done)) = first {
            *done = Some(decode(piece));
        }
    });
    done.into_iter().flatten().collect()
}

/// Cuts a trace into pieces of about the same length, at PSBs.
fn pieces(trace: &[u8], threads: NonZero<usize>) -> Vec<Range<usize>> {
    let wanted = (trace.len() / SHORTEST).clamp(1, threads.get());
    let mut cuts = vec![0];
    for piece in 1..wanted {
        let about = trace.len() / wanted * piece;
        if let Some(psb) = next_psb(trace, about)
            && cuts.last() < Some(&psb)
        {
            cuts.push(psb);
        }
    }
    let ends = cuts.iter().skip(1).copied().chain([trace.len()]);
    cuts.iter()
        .copied()
        .zip(ends)
        .map(|(from, to)| from..to)
        .collect()
}
