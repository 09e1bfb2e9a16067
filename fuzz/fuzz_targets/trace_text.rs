//! The text of a stack trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = failure::text::parse(text);
});
