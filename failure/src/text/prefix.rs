//! What journald, syslog, container runtimes and mail programs put in front of a line.

use super::scan::{bare_hex, decimal};

/// Removes every prefix that is recognised; indentation that belongs to the line itself stays.
pub(super) fn strip(line: &str) -> &str {
    let mut line = line;
    // Prefixes nest (a quoted journal line of a container), but not deeper than this.
    for _ in 0..6 {
        match once(line) {
            Some(rest) => line = rest,
            None => break,
        }
    }
    line
}

fn once(line: &str) -> Option<&str> {
    quoting(line)
        .or_else(|| stamped(line))
        .or_else(|| kernel_stamp(line))
        .or_else(|| compose(line))
}

fn quoting(line: &str) -> Option<&str> {
    let text = line.trim_start();
    if let Some(rest) = text.strip_prefix("(gdb) ") {
        return Some(rest);
    }
    let rest = text.strip_prefix('>').or_else(|| text.strip_prefix('|'))?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// docker compose: `web-1  | text`.
fn compose(line: &str) -> Option<&str> {
    let end = line
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte))
        .count();
    let (name, rest) = line.split_at_checked(end)?;
    let rest = rest.strip_prefix(' ')?.trim_start().strip_prefix('|')?;
    (!name.is_empty()).then(|| rest.strip_prefix(' ').unwrap_or(rest))
}

/// The kernel's `[  123.456789] ` and dmesg -T's `[Mon Nov 16 02:32:25 2026] `.
fn kernel_stamp(line: &str) -> Option<&str> {
    let (inside, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim();
    let seconds = || {
        let (_, fraction) = decimal(inside)?;
        let (_, end) = decimal(fraction.strip_prefix('.')?)?;
        end.is_empty().then_some(())
    };
    let clock = || {
        let mut words = inside.split_ascii_whitespace().skip(1);
        syslog_date(words.next()?, words.next()?)?;
        clock_time(words.next()?)
    };
    let iso = || iso_stamp(inside).map(|_| ());
    seconds().or_else(|| clock().map(|_| ())).or_else(iso)?;
    Some(after_stamp(rest.strip_prefix(' ').unwrap_or(rest), false))
}

/// A time stamp and the words that come with it: host, program, stream, level.
fn stamped(line: &str) -> Option<&str> {
    let text = line.trim_start();
    if let Some(rest) = iso_stamp(text) {
        return Some(after_stamp(rest, true));
    }
    let (month, rest) = text.split_once(' ')?;
    let (day, rest) = rest.trim_start().split_once(' ')?;
    syslog_date(month, day)?;
    let (time, rest) = rest.split_once(' ')?;
    clock_time(time)?;
    Some(after_stamp(rest, true))
}

fn syslog_date(month: &str, day: &str) -> Option<()> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    (MONTHS.contains(&month) && decimal(day)?.1.is_empty()).then_some(())
}

/// `02:32:25`, perhaps with a fraction.
fn clock_time(text: &str) -> Option<&str> {
    let (_, rest) = decimal(text)?;
    let (_, rest) = decimal(rest.strip_prefix(':')?)?;
    let (_, rest) = decimal(rest.strip_prefix(':')?)?;
    match rest.strip_prefix(['.', ',']) {
        Some(fraction) => decimal(fraction).map(|(_, rest)| rest),
        None => Some(rest),
    }
}

/// `2026-11-16T02:32:25.123Z `, `2026-11-16 02:32:25+0100 `, `2026/11/16 02:32:25 `.
fn iso_stamp(text: &str) -> Option<&str> {
    let date = text.get(..10)?;
    let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-' || byte == b'/',
        _ => byte.is_ascii_digit(),
    });
    let rest = text.get(10..).filter(|_| is_date)?;
    let rest = clock_time(rest.strip_prefix(['T', ' ', '_'])?)?;
    let zone = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || b"Z+-:".contains(byte))
        .count();
    let rest = rest.get(zone..)?;
    match rest.strip_prefix(' ') {
        Some(rest) => Some(rest),
        None => rest.is_empty().then_some(rest),
    }
}

/// Drops stream names, host and program, levels and bracketed tags that follow a time stamp.
fn after_stamp(rest: &str, may_name_program: bool) -> &str {
    let mut rest = rest;
    for stream in ["stdout F ", "stderr F ", "stdout P ", "stderr P "] {
        rest = rest.strip_prefix(stream).unwrap_or(rest);
    }
    if may_name_program {
        rest = host_and_program(rest).unwrap_or(rest);
    }
    for _ in 0..3 {
        match tag(rest) {
            Some(after) => rest = after,
            None => break,
        }
    }
    rest
}

fn host_and_program(text: &str) -> Option<&str> {
    let (first, after_first) = text.split_once(' ')?;
    if let Some(rest) = program(first, after_first) {
        return Some(rest);
    }
    let (second, rest) = after_first.split_once(' ').unwrap_or((after_first, ""));
    if !is_host(first) {
        return None;
    }
    program(second, rest)
}

/// `prog[123]:` or `kernel:`, unless it is the kernel speaking about that program.
fn program<'a>(word: &str, rest: &'a str) -> Option<&'a str> {
    let name = word.strip_suffix(':')?;
    let has_pid = name
        .strip_suffix(']')
        .and_then(|name| name.rsplit_once('['))
        .is_some_and(|(_, pid)| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()));
    let speaks = !rest.starts_with("segfault at");
    ((has_pid || name == "kernel" || name == "systemd-coredump") && speaks).then_some(rest)
}

fn is_host(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// A level word or a short bracketed tag, but not gdb's own bracketed messages or a bare address.
fn tag(text: &str) -> Option<&str> {
    for level in [
        "TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL",
    ] {
        if let Some(rest) = text.strip_prefix(level).and_then(|rest| rest.strip_prefix(' ')) {
            return Some(rest);
        }
    }
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    let spoken = ["Switching", "Current", "New ", "Thread ", "0x", "unknown", "<"];
    let is_tag = inside.len() <= 32 && !spoken.iter().any(|start| inside.starts_with(start));
    let rest = rest.strip_prefix(' ')?;
    (is_tag && bare_hex(inside).is_none_or(|(_, rest)| !rest.is_empty())).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn every_known_prefix_goes() {
        for prefix in [
            "Nov 16 02:32:25 web-1 prog[123]: ",
            "Nov 16 02:32:25.123456 web-1 prog[123]: ",
            "Nov  6 02:32:25 web-1 kernel: [  123.456789] ",
            "2026-11-16T02:32:25.123456+0100 web-1 prog[123]: ",
            "2026-11-16T02:32:25.123456789Z stderr F ",
            "2026-11-16T02:32:25Z ",
            "2026-11-16 02:32:25,123 [error] [io] ",
            "[2026-11-16 02:32:25.123] [prog] [critical] ",
            "[  123.456] ",
            "[Mon Nov 16 02:32:25 2026] ",
            "> > ",
            "| ",
            "(gdb) ",
            "web-1  | ",
        ] {
            for text in [
                "#0  0x1 in main () at a.c:3",
                "    #0 0x1 in main a.c:3",
                "prog[7]: segfault at 0 ip 1",
            ] {
                assert_eq!(strip(&format!("{prefix}{text}")), text, "{prefix:?}");
            }
        }
    }

    #[test]
    fn what_is_no_prefix_stays() {
        for text in [
            "prog: a.c:12: check: Assertion `x' failed.",
            "[Switching to Thread 0x7f (LWP 12)]",
            "[0x55d0c0de]",
            "   3: panic::main",
            "Thread 3 (LWP 12):",
            "./prog(+0x11d9) [0x55]",
        ] {
            assert_eq!(strip(text), text);
        }
    }
}
