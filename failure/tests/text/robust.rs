use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn all_fixtures() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/text");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn with_prefix(text: &[u8], prefix: &str, end: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .map(|line| format!("{prefix}{line}{end}"))
        .collect::<String>()
        .into_bytes()
}

#[test]
fn prefixes_change_nothing() {
    for text in all_fixtures() {
        let Ok(plain) = failure::text::parse(&text) else {
            continue;
        };
        for (prefix, end) in [
            ("Nov 16 02:32:25 web-1 prog[123]: ", "\n"),
            ("Nov 16 02:32:25.123456 web-1 prog[123]: ", "\n"),
            ("2026-11-16T02:32:25.123456789Z ", "\n"),
            ("2026-11-16T02:32:25.123456789Z stdout F ", "\r\n"),
            ("[  123.456789] ", "\n"),
            ("> ", "\r\n"),
            ("| ", "\n"),
            ("web-1  | ", "\n"),
            ("\u{1b}[0m", "\u{1b}[0m\n"),
        ] {
            let prefixed = failure::text::parse(&with_prefix(&text, prefix, end));
            assert_eq!(prefixed.as_ref(), Ok(&plain), "{prefix:?}");
        }
    }
}

#[test]
fn junk_around_changes_nothing() {
    let junk =
        "starting up: 3 workers\n{\"level\": \"info\", \"n\": 12}\n#include <x>\n12: ok\n\n[info] a+b\n";
    for text in all_fixtures() {
        let Ok(plain) = failure::text::parse(&text) else {
            continue;
        };
        let around = [junk.as_bytes(), &text, b"\n", junk.as_bytes()].concat();
        assert_eq!(failure::text::parse(&around), Ok(plain));
    }
}

/// Generous for a busy machine and an unoptimised build, and far below what anything quadratic would take.
fn in_time(name: &str, bytes: &[u8]) {
    let start = Instant::now();
    let result = failure::text::parse(bytes);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{name}: {:?}",
        start.elapsed()
    );
    if let Ok(report) = result {
        assert!(report.threads.len() <= 4096, "{name}");
        assert!(
            report.threads.iter().all(|thread| thread.frames.len() <= 4096),
            "{name}"
        );
    }
}

#[test]
fn large_inputs_take_linear_time() {
    const LINE: usize = 10_000_000;
    in_time("one line", &vec![b'('; LINE]);
    in_time(
        "one frame",
        &[b"#0  0x1 in f (".as_slice(), &vec![b'('; LINE], b") at a.c:1"].concat(),
    );
    for (name, line) in [
        ("empty lines", "\n"),
        ("first frames", "#0  f () at a.c:1\n"),
        ("open frames", "#0  f (a=\n"),
        ("open frames with more", "#0  f (a=\nb, (\n"),
        ("threads", "Thread 1 (LWP 1):\n#0  f () at a.c:1\n"),
        ("perf", "    1000 f+0x1 (/bin/x)\n"),
        ("glibc", "./a(f+0x1)[0x1000]\n"),
        ("panics", "thread 'a' panicked at a.rs:1:1:\n"),
        ("asan", "==1==ERROR: AddressSanitizer: x\n#0 0x1 in f a.c:1\n"),
        ("maps", "1000-2000 r-xp 00000000 08:01 1 /a\n"),
        ("modules", "Module a with build-id 00\n"),
        ("brackets", "#0  0x1 in <<<<(((([[[[ as as as ::::<\n"),
    ] {
        in_time(name, line.repeat(1_000_000 / line.len()).as_bytes());
    }
}

#[test]
fn a_runaway_recursion_keeps_the_innermost_frames() {
    let mut text = String::from("Program received signal SIGSEGV, Segmentation fault.\n");
    for number in 0..50_000u64 {
        let address = 0x5555_0000_0000 + number;
        writeln!(
            text,
            "#{number:<2} {address:#018x} in recurse (n={number}) at a.c:3"
        )
        .unwrap();
    }
    let report = failure::text::parse(text.as_bytes()).unwrap();
    assert_eq!(report.threads.len(), 1);
    assert_eq!(report.threads[0].frames.len(), 4096);
    assert_eq!(
        line(&report.threads[0].frames[0]),
        "0x555500000000! recurse a.c:3"
    );
    assert_eq!(
        report.notes,
        ["frames left out, as at most 4096 of a thread are kept: 45904"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..2000)) {
        let _ = failure::text::parse(&bytes);
    }

    #[test]
    fn any_text_of_the_formats_letters(text in r"[#0-9a-fx \t\n()<>\[\]+:;.,'`=@_ThreadSIGin\\/|*-]{0,400}") {
        let _ = failure::text::parse(text.as_bytes());
    }

    #[test]
    fn changed_fixtures(
        which in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..20),
    ) {
        let fixtures = all_fixtures();
        let mut text = which.get(&fixtures).clone();
        for (at, byte, change) in changes {
            let at = at.index(text.len().max(1));
            match change {
                0 if at < text.len() => text[at] = byte,
                1 if at < text.len() => { text.remove(at); }
                2 => text.insert(at.min(text.len()), byte),
                _ => text.truncate(at.max(text.len() / 2)),
            }
        }
        if let Ok(report) = failure::text::parse(&text) {
            prop_assert!(report.failing < report.threads.len());
            let _ = failure::frames::failing_frame(&report);
        }
    }

    #[test]
    fn any_symbol(name in r"[_ZNRSt0-9a-h:<>(){}\[\] @.+&*'`!/as]{0,80}") {
        let _ = failure::frames::is_runtime(&name);
    }
}
