//! What a trap costs by itself: holds a breakpoint that nobody listens to on a process, `trap PID ADDR`, until
//! standard input ends; then prints how often it was hit.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::error::Error;
use std::io::{self, Write as _};

use program::RunAddr;
use tracee::Tid;
use tracee::perf::{Breakpoint, Delivery, Follow, Range, Start, Trigger};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let [_, pid, addr] = &words[..] else {
        return Err("usage: trap PID ADDR".into());
    };
    let addr = u64::from_str_radix(addr.trim_start_matches("0x"), 16)?;
    let trigger = Trigger::Write(Range::new(RunAddr(addr), 8)?);
    let breakpoint = Breakpoint::open(
        Tid(pid.parse()?),
        trigger,
        Delivery::Silent,
        Follow::Nobody,
        Start::Enabled,
    )?;
    println!("armed");
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    println!("hits {}", breakpoint.count()?);
    Ok(())
}
