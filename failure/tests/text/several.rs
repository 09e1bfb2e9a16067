//! Texts that tell of several failures.

use super::*;

/// The first failure of a text is what it is alone, and the others are counted.
fn first_of(first: &str, others: &[&str]) {
    let alone = read(first);
    let mut text = fixture(first);
    for other in others {
        text.extend(b"\nworker: starting again\n");
        text.extend(fixture(other));
    }
    let report = failure::text::parse(&text).unwrap();
    let what = format!("{first} and then {others:?}");
    assert_eq!(report.threads, alone.threads, "{what}");
    assert_eq!(
        (report.kind, report.signal, report.failing),
        (alone.kind, alone.signal, alone.failing),
        "{what}"
    );
    assert_eq!(
        (report.message, report.program),
        (alone.message, alone.program),
        "{what}"
    );
    let further = format!(
        "further failures left out, as this is the first in the text: {}",
        others.len()
    );
    assert_eq!(report.notes, [vec![further], alone.notes].concat(), "{what}");
}

#[test]
fn of_several_crashes_the_first() {
    first_of("gdb-core-threads-bt-full.txt", &["gdb-templates.txt"]);
    first_of(
        "gdb-run-threads.txt",
        &["gdb-assertion.txt", "gdb-core-threads-bt-full.txt"],
    );
    first_of("gdb-assertion.txt", &["gdb-run-threads.txt"]);
    first_of(
        "coredumpctl-info.txt",
        &["coredumpctl-info.txt", "coredumpctl-info.txt"],
    );
    first_of("eu-stack.txt", &["eu-stack.txt"]);
    first_of("lldb-threads.txt", &["lldb-threads.txt"]);
}

/// A debugger tells of stops before the failure, too, and of the end of the process after it.
#[test]
fn what_a_debugger_stopped_at_before_is_no_failure() {
    let stop = "Program received signal SIGUSR1, User defined signal 1.\n#0  0x0000555555555180 in wait_for (n=1) at a.c:5\n\
                #1  0x0000555555555190 in main () at a.c:9\n";
    let crash = "Program received signal SIGSEGV, Segmentation fault.\n#0  0x00005555555551a0 in find (n=1) at a.c:3\n\
                 #1  0x0000555555555199 in main () at a.c:10\n";
    let end = "Program terminated with signal SIGSEGV, Segmentation fault.\nThe program no longer exists.\n";
    let notes = |text: String| failure::text::parse(text.as_bytes()).unwrap().notes;
    assert_eq!(notes(format!("{stop}{crash}{end}")), Vec::<String>::new());
    assert_eq!(notes(format!("{crash}{end}")), Vec::<String>::new());
    assert_eq!(
        notes(format!("{crash}{end}{crash}")),
        ["further failures left out, as this is the first in the text: 1"]
    );
}
