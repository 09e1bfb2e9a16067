//! A variable is watched by the name that a programmer has for it, or by its address.

use std::os::unix::fs::PermissionsExt as _;

use failsketch_tests::command;
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use failsketch_tests::target::Built;
use failsketch_tests::watch::{Hit, Watch};

use crate::watching::{Way, line_of};

/// The one write among the hits, as it should be.
fn assert_written(what: &str, hits: &[Hit], name: &str, line: u32, value: Option<u64>) {
    let writes: Vec<&Hit> = hits.iter().filter(|hit| hit.access.contains('W')).collect();
    let [write] = writes[..] else {
        panic!("{what}: not one write but {writes:#?}")
    };
    assert_eq!(write.line, line, "{what}: {write:?}");
    assert_eq!(write.variable.as_deref(), Some(name), "{what}: {write:?}");
    if value.is_some() {
        assert_eq!(write.value, value, "{what}: {write:?}");
    }
}

fn check(built: &Built, ways: &[Way], cases: &[(&str, &str, Option<u64>)]) {
    for &(name, mark, value) in cases {
        for way in ways {
            let watched = way.watch(built, &[], &[name]);
            let line = line_of(&built.text, mark);
            let what = format!("{way} {name}");
            assert_written(&what, &watched.hits, name, line, value);
        }
    }
}

#[test]
fn of_c() {
    let built = Built::c("names.c", "O0");
    let negative = u64::from_ne_bytes((-4_i64).to_ne_bytes());
    let ways = [Way::ATTACHED[1], Way::LAUNCHED[0]];
    let cases = [
        ("plain_global", "@plain", Some(1234)),
        ("outer.inner.deep", "@deep", Some(77)),
        ("outer.list[2]", "@element", Some(negative)),
        ("outer.share", "@share", None),
        ("pointed", "@pointer", None),
        ("state", "@state", Some(5)),
        ("own", "@own", Some(8)),
        ("names.c:own", "@own", Some(8)),
    ];
    check(&built, &ways, &cases);
}

/// The pointer is set by the program later: what it points to is watched from then on.
#[test]
fn of_what_a_pointer_points_to() {
    let built = Built::c("names.c", "O0");
    let ways = [Way::ATTACHED[0], Way::LAUNCHED[0]];
    let cases = [
        ("*bytes", "@byte */", Some(200)),
        ("pointed->inner.deep", "@through", Some(99)),
    ];
    check(&built, &ways, &cases);
}

/// All watched bytes are shown, not only as many as fit into a register.
#[test]
fn of_a_wide_variable() {
    let built = Built::c("names.c", "O0");
    let line = line_of(&built.text, "@element");
    for way in Way::ATTACHED.into_iter().chain(Way::LAUNCHED) {
        let watched = way.watch(&built, &[], &["outer.list"]);
        assert_written(&way.to_string(), &watched.hits, "outer.list", line, None);
        let shown: Vec<&str> = watched.hits.iter().filter_map(|hit| hit.shown.as_str()).collect();
        assert_eq!(shown, ["0000000000000000fcffffff00000000"], "{way}");
    }
}

/// A script is run by the interpreter that it names: that is the program whose variables are watched.
#[test]
fn of_a_script_s_interpreter() {
    let built = Built::c("names.c", "O0");
    let folder = Folder::new("script");
    let executable = |name, text: String| {
        let path = folder.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let script = executable("script", format!("#! {} argument\n", built.exe.display()));
    let indirect = executable("indirect", format!("#!{}\n", script.display()));
    let line = line_of(&built.text, "@plain");
    for way in Way::LAUNCHED {
        for path in [&script, &indirect] {
            let command = std::process::Command::new(path);
            let watched = Watch::launch(&command, way.mode, &["plain_global"]).finish();
            let what = format!("{way} {}", path.display());
            assert_written(&what, &watched.hits, "plain_global", line, Some(1234));
        }
    }
}

#[test]
fn of_several_at_once() {
    let built = Built::c("names.c", "O0");
    let variables = ["plain_global", "own", "state", "outer.inner.deep"];
    for way in [Way::ATTACHED[1], Way::LAUNCHED[0]] {
        let watched = way.watch(&built, &[], &variables);
        let writes: Vec<&str> = watched
            .hits
            .iter()
            .filter(|hit| hit.access.contains('W'))
            .filter_map(|hit| hit.variable.as_deref())
            .collect();
        assert_eq!(
            writes,
            ["plain_global", "outer.inner.deep", "state", "own"],
            "{way}"
        );
    }
}

#[test]
fn of_cpp() {
    let built = Built::with(&["g++", "-O1"], "names.cc");
    let cases = [
        ("shop::stock", "@stock", Some(41)),
        ("shop::Till::total", "@total", Some(43)),
        ("shop::till.open", "@open", Some(44)),
    ];
    check(&built, &[Way::ATTACHED[1], Way::LAUNCHED[0]], &cases);
}

/// Namespaces without a name, template arguments and static members, as the debug information has them, as people write
/// them, and as other tools do.
#[test]
fn of_cpp_as_people_write_them() {
    let cases = [
        ("shop::(anonymous namespace)::hidden", "@hidden", Some(42)),
        ("shop::{anonymous}::hidden", "@hidden", Some(42)),
        ("shop::hidden", "@hidden", Some(42)),
        ("hidden", "@hidden", Some(42)),
        (
            "names.cc:(anonymous namespace)::shelf.height",
            "@height",
            Some(46),
        ),
        ("shop::Till::drawers", "@drawers", Some(45)),
        ("Till::drawers", "@drawers", Some(45)),
        ("shop::Table<int, 4>::first", "@int-table", Some(47)),
        ("shop::Table<int,4>::first", "@int-table", Some(47)),
        (
            "shop::Table<std::pair<int, int>, 2>::first.second",
            "@pair-table",
            Some(48),
        ),
        (
            "shop::Table<int (*)(char const*), 1>::first",
            "@function-table",
            None,
        ),
        ("shop::spare<std::pair<long, long>>.first", "@spare", Some(49)),
    ];
    for compiler in [["g++", "-std=c++17", "-O1"], ["clang++", "-std=c++17", "-O1"]] {
        let built = Built::with(&compiler, "names.cc");
        check(&built, &[Way::LAUNCHED[0]], &cases);
    }
}

/// A library is named by its file; it need not be loaded yet.
#[test]
fn of_a_library_that_is_loaded_later() {
    let library = Built::with(&["gcc", "-O1", "-shared", "-fPIC"], "plugin.c");
    let file = library.folder.path().join("plugin.so");
    std::fs::rename(&library.exe, &file).unwrap();
    let file = file.to_str().unwrap();
    let built = Built::with(&["gcc", "-O1"], "loads_plugin.c");
    let name = format!("{file}:plugged");
    let line = line_of(&library.text, "@plug");
    for way in [Way::ATTACHED[0], Way::LAUNCHED[0], Way::LAUNCHED[1]] {
        let watched = way.watch(&built, &[file], &[&name]);
        // The loader clears the memory of a library that it loads where another was.
        let own = watched.hits.iter().filter(|hit| hit.line == line);
        let seen: Vec<_> = own.map(|hit| (hit.access.as_str(), hit.value)).collect();
        assert_eq!(seen, [("W", Some(1)), ("W", Some(2))], "{way}");
    }
    let exe = built.exe.to_str().unwrap();
    let refused = command::failsketch(["watch", "--var", "plugged", "--", exe, file]);
    assert!(
        refused.stderr.contains("LIBRARY.so:plugged"),
        "{}",
        refused.stderr
    );
    let refused = command::failsketch(["watch", "--var", "plugin.so:plugged", "--", exe, file]);
    assert!(refused.stderr.contains("path of the file"), "{}", refused.stderr);
}

#[test]
fn of_rust() {
    let built = Built::with(&["rustc", "-Copt-level=1"], "names.rs");
    let cases = [
        ("names::COUNT", "@count", Some(51)),
        ("names::depot::LEVEL", "@level", Some(52)),
    ];
    check(&built, &[Way::ATTACHED[1], Way::LAUNCHED[0]], &cases);
}

/// Where a variable of a running program is, by its symbol and where the program was loaded.
fn address(built: &Built, target: &Running, symbol: &str) -> u64 {
    let mut nm = std::process::Command::new("nm");
    let listing = failsketch_tests::process::tool(nm.arg(&built.exe), built.folder.path());
    let line = listing
        .lines()
        .find(|line| line.ends_with(&format!(" {symbol}")))
        .unwrap();
    let offset = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).unwrap();
    let exe = built.exe.to_str().unwrap();
    let first = maps.lines().find(|line| line.ends_with(exe)).unwrap();
    let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
    base + offset
}

#[test]
fn by_address() {
    let built = Built::c("names.c", "O0");
    for (length, expected) in [("", 1234), (":4", 1234), (":1", 1234 & 0xff), (":2", 1234)] {
        let mut target = built.start_ready(&[]);
        let at = address(&built, &target, "plain_global");
        let place = format!("{at:#x}{length}");
        let pid = target.pid().to_string();
        let watch = Watch::start(["--pid", &pid, "--addr", &place]);
        watch.0.stderr_line("failsketch: watching ").unwrap();
        target.end_input();
        assert_eq!(target.finish().status.code(), Some(3));
        let watched = watch.finish();
        let writes = watched
            .hits
            .iter()
            .filter(|hit| hit.line == line_of(&built.text, "@plain"));
        let [hit] = writes.collect::<Vec<_>>()[..] else {
            panic!("{place}: {:#?}", watched.hits)
        };
        assert_eq!(hit.addr, format!("{at:#x}"), "{place}");
        let value = hit.value.unwrap_or_else(|| panic!("{place}: no value"));
        // Without a length it is as wide as a register, and the variable is the lower half.
        let seen = if length.is_empty() {
            value & 0xffff_ffff
        } else {
            value
        };
        assert_eq!(seen, expected, "{place}");
    }
}

/// For people: one line a hit, with its time, thread, access, value and statement; then what it comes to.
#[test]
fn and_is_told_in_words() {
    let built = Built::c("names.c", "O0");
    let exe = built.exe.to_str().unwrap();
    let done = command::failsketch(["watch", "--var", "plain_global", "--var", "own", "--", exe]);
    assert_eq!(done.how(), "exit status 0", "{}", done.stderr);
    let line = |mark| line_of(&built.text, mark);
    for (value, mark) in [("plain_global = 1234", "@plain"), ("own = 8", "@own")] {
        let place = format!("set (names.c:{})", line(mark));
        let told = |text: &str| text.contains(value) && text.contains(" W ") && text.contains(&place);
        let found = done.stdout.lines().filter(|text| told(text)).count();
        assert_eq!(found, 1, "{value} at {place}:\n{}", done.stdout);
    }
    assert!(
        done.stdout.contains("3 accesses"),
        "{}{}",
        done.stdout,
        done.stderr
    );
}
