//! How fast traces are decoded: `pt TURNS NAME.pt`, with `NAME.pages` and `NAME.addr` beside it; one line of JSON.
//!
//! Ours against libipt's block decoder in its best configuration: code as sections of a file, which are kept mapped,
//! so that its block cache works and stays. Each turn measures both, first with nothing known of the code, then the
//! same trace again; the best turn counts. Every block goes to somebody who adds up addresses.
//!
//! A trace with one PSB cannot be shared out: two threads decode several times the trace, one behind the other, and so
//! does one thread.

#![allow(clippy::print_stdout, reason = "the result is what this program is for")]

use std::error::Error;
use std::num::NonZero;
use std::path::Path;
use std::time::Instant;

use pt_driver_client::code::{BlockId, Blocks, Image};
use pt_driver_client::flow::{Consumer, Decoder, Gap, Part, parallel};
use tracee::libipt::{self, BlockDecoder, Config};

/// Adds up the addresses of blocks, and counts them and their instructions.
#[derive(Default)]
struct Sum {
    addresses: u64,
    blocks: u64,
}

impl Consumer for Sum {
    const EVENTS: bool = false;

    #[inline]
    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        // In a register: through `self` each sum would be stored before the next.
        let sum = blocks
            .iter()
            .fold(0_u64, |sum, &id| sum.wrapping_add(code.start(id)));
        self.addresses = self.addresses.wrapping_add(sum);
        self.blocks += blocks.len() as u64;
    }

    fn part(&mut self, _: &Blocks<'_>, part: Part) {
        self.addresses = self.addresses.wrapping_add(part.start);
        self.blocks += 1;
    }

    fn gap(&mut self, _: Gap) {}
}

/// The same by libipt, from the first PSB to the end.
fn theirs(decoder: &mut BlockDecoder<'_>) -> Result<Sum, Box<dyn Error>> {
    let mut sum = Sum::default();
    let mut status = decoder.sync_at(0)?;
    loop {
        while status.event_pending {
            match decoder.event() {
                Ok((_, next)) => status = next,
                Err(_) => return Ok(sum),
            }
        }
        let (block, next) = decoder.next_block();
        sum.addresses = sum.addresses.wrapping_add(block.ip);
        sum.blocks += 1;
        match next {
            Ok(next) => status = next,
            Err(_) => return Ok(sum),
        }
    }
}

#[derive(Default)]
struct Times {
    theirs: Vec<f64>,
    theirs_again: Vec<f64>,
    ours: Vec<f64>,
    ours_again: Vec<f64>,
    one: Vec<f64>,
    two: Vec<f64>,
}

/// How often a trace is repeated for several threads.
const REPEATED: usize = 8;

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [turns, file] = words.as_slice() else {
        return Err("usage: pt TURNS NAME.pt".into());
    };
    let file = Path::new(file);
    let trace = std::fs::read(file)?;
    let pages = std::fs::read(file.with_extension("pages"))?;
    let addresses = std::fs::read(file.with_extension("addr"))?;
    let code = libipt::CodeFile::new(Image::from_pages(&pages, &addresses)?.pieces())?;
    let long = trace.repeat(REPEATED);
    let mut times = Times::default();
    let (mut blocks, mut their_blocks) = (0, 0);
    for _ in 0..turns.parse::<u32>()?.max(1) {
        let started = Instant::now();
        let image = libipt::Image::new(&code)?;
        let mut decoder = BlockDecoder::new(&trace, &image, &Config::default())?;
        their_blocks = theirs(&mut decoder)?.blocks;
        times.theirs.push(started.elapsed().as_secs_f64());
        let started = Instant::now();
        theirs(&mut decoder)?;
        times.theirs_again.push(started.elapsed().as_secs_f64());

        let started = Instant::now();
        let image = Image::from_pages(&pages, &addresses)?;
        let mut decoder = Decoder::new(&image);
        let mut sum = Sum::default();
        decoder.decode(&trace, &mut sum);
        times.ours.push(started.elapsed().as_secs_f64());
        let started = Instant::now();
        let mut again = Sum::default();
        decoder.decode(&trace, &mut again);
        times.ours_again.push(started.elapsed().as_secs_f64());
        if (sum.addresses, sum.blocks) != (again.addresses, again.blocks) {
            return Err("the same trace was decoded differently".into());
        }
        blocks = sum.blocks;

        let on_threads = |count: usize| -> Result<(f64, Sum), Box<dyn Error>> {
            let started = Instant::now();
            let count = NonZero::new(count).ok_or("no thread")?;
            let sums = parallel::decode(&image, &long, count, Sum::default);
            let seconds = started.elapsed().as_secs_f64();
            let sum = sums.iter().fold(Sum::default(), |sum, other| Sum {
                addresses: sum.addresses.wrapping_add(other.addresses),
                blocks: sum.blocks + other.blocks,
            });
            Ok((seconds, sum))
        };
        let ((one, alone), (two, shared)) = (on_threads(1)?, on_threads(2)?);
        if (alone.addresses, alone.blocks) != (shared.addresses, shared.blocks) {
            return Err("two threads decoded something else than one".into());
        }
        times.one.push(one);
        times.two.push(two);
    }
    let result = serde_json::json!({
        "file": file, "bytes": trace.len(), "blocks": blocks, "their_blocks": their_blocks,
        "libipt_ms": best(&times.theirs) * 1e3, "libipt_again_ms": best(&times.theirs_again) * 1e3,
        "ours_ms": best(&times.ours) * 1e3, "ours_again_ms": best(&times.ours_again) * 1e3,
        "two_threads_ms": best(&times.two) * 1e3,
        "first": best(&times.theirs) / best(&times.ours),
        "again": best(&times.theirs_again) / best(&times.ours_again),
        "two_threads": best(&times.one) / best(&times.two),
    });
    println!("{result}");
    Ok(())
}
