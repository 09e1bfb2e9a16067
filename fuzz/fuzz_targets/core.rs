//! A core dump, with one file as each of its modules: parsed, unwound, and matched with that file as the program.
#![no_main]

use failsketch_fuzz::{Other, split};
use failure::core_dump::CoreDump;
use failure::image::{Limits, report};
use program::{Module, Program};

/// A whole report's worth of frames would make every input slow and none of them better.
const LIMITS: Limits = Limits {
    frames: 64,
    threads: 16,
    total_frames: 512,
};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (core, module) = split(input);
    let Ok(core) = CoreDump::parse(core) else { return };
    let files = Other::new(module);
    let report = report(&core, &files, LIMITS);
    if let Ok(module) = Module::load("program", module, &files) {
        let _ = failure::resolve(&report, &Program::new(vec![module]));
    }
});
