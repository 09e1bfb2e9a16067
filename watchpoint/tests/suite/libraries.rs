//! Variables of libraries, and programs that replace themselves.

use program::LinkAddr;
use tracee::ptrace::{End, Launch};
use watchpoint::code::CodeFiles;
use watchpoint::session::{Request, Session};
use watchpoint::{Address, Mode, ModeRequest, Target, Trigger, WatchSpec};

use crate::support::{Folder, can_watch};
use crate::watched::to_end;

/// Watches the library's variable in a run of the program; gives the values that were written.
fn written(arguments: &[&str], mode: Mode) -> Vec<u64> {
    let folder = Folder::new("libraries");
    let source = |name: &str| format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"));
    folder.run(&format!(
        "gcc -g -O1 -shared -fPIC -o libshared.so {}",
        source("library.c")
    ));
    folder.run(&format!(
        "gcc -g -O1 -o program {} -L. -lshared -Wl,-rpath,{}",
        source("uses_library.c"),
        folder.path().display()
    ));
    let symbols = folder.run("nm libshared.so");
    let addr = symbols.lines().find_map(|line| {
        let addr = line.strip_suffix(" B shared_counter")?;
        u64::from_str_radix(addr, 16).ok()
    });
    let request = Request {
        target: Target::Launch(Launch::new(folder.path().join("program")).args(arguments.iter().copied())),
        locations: vec![WatchSpec {
            address: Address::Static {
                module: Some(folder.path().join("libshared.so")),
                addr: LinkAddr(addr.expect("the library has the variable")),
            },
            len: 8,
            trigger: Trigger::Write,
        }],
        mode: ModeRequest::Only(mode),
        keeper: None,
    };
    let files = CodeFiles::default();
    let (mut session, _) = Session::start(request, &files).expect("the program can be watched");
    let (hits, end) = to_end(&mut session);
    assert_eq!(end, End::Exited(0));
    assert_eq!(session.summary().late_armed, 0);
    hits.iter()
        .filter_map(|hit| hit.value)
        .map(|value| value.bits)
        .collect()
}

#[test]
fn a_librarys_variable_is_watched_before_its_constructors_run() {
    if !can_watch() {
        return;
    }
    assert_eq!(written(&[], Mode::Exact), [40, 41, 42]);
    assert_eq!(written(&[], Mode::Observe), [40, 41, 42]);
}

#[test]
fn a_program_that_replaces_itself_is_watched_again() {
    if !can_watch() {
        return;
    }
    // The constructor runs in both programs.
    assert_eq!(written(&["again"], Mode::Exact), [40, 40, 41, 42]);
}
