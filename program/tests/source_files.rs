//! Debug information outside the program: whatever way it is stored, it says the same.

mod support;

use program::LinkAddr;
use program::source::{DebugStatus, SourceFrame, Sources};
use support::{Folder, FolderFiles, line_of};

const QUEUE: &str = include_str!("programs/queue.cpp");

fn built(flags: &str) -> Folder {
    let folder = Folder::new("files");
    folder.write("queue.cpp", QUEUE);
    folder.run(&format!("{flags} -c queue.cpp -o queue.o"));
    folder.run(&format!("{flags} queue.o -o queue"));
    folder
}

/// An address with its frames and variables.
type Told = (LinkAddr, Vec<SourceFrame>, Vec<String>);

/// What the debug information says about every line, paths without their folder; and its problems.
fn told(folder: &Folder, binary: &str) -> (DebugStatus, Vec<Told>, Vec<String>) {
    let files = FolderFiles::new(folder, binary);
    let sources = Sources::load(&files.elf(), files);
    let mut all = Vec::new();
    for line in 1..=u32::try_from(QUEUE.lines().count()).expect("short") {
        for found in sources
            .addresses_of("queue.cpp", line)
            .map(|found| found.matches)
            .unwrap_or_default()
        {
            let mut frames = sources.frames_at(found.range.start);
            for frame in &mut frames {
                let base = |path: &str| path.rsplit('/').next().unwrap_or_default().into();
                frame.file = frame.file.as_deref().map(base);
            }
            let variables = sources.variables_at(found.range.start);
            let variables = variables.iter().map(|variable| {
                let ty = variable
                    .ty
                    .map(|ty| (sources.ty(ty).name(), sources.ty(ty).size()));
                format!("{} {:?} {ty:?}", variable.name, variable.location)
            });
            all.push((found.range.start, frames, variables.collect()));
        }
    }
    (sources.status().clone(), all, sources.problems())
}

#[test]
fn a_stripped_program_is_read_through_its_debug_file() {
    let folder = built("g++ -g -O1 -Wl,--build-id");
    let (_, expected, _) = told(&folder, "queue");
    assert!(expected.len() > 20);
    folder.run("objcopy --only-keep-debug queue queue.debug");
    folder.run("objcopy --strip-all --add-gnu-debuglink=queue.debug queue stripped");
    let (status, told_by_link, problems) = told(&folder, "stripped");
    assert_eq!(
        status,
        DebugStatus::Separate {
            how: "debug link queue.debug".to_owned()
        }
    );
    assert_eq!(told_by_link, expected);
    assert_eq!(problems, Vec::<String>::new());

    let notes = folder.run("readelf -n stripped");
    let id = notes
        .split("Build ID: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("an id");
    folder.run(&format!("mv queue.debug {id}.debug"));
    let (status, told_by_id, _) = told(&folder, "stripped");
    assert_eq!(
        status,
        DebugStatus::Separate {
            how: format!("build-id {id}")
        }
    );
    assert_eq!(told_by_id, expected);
}

#[test]
fn a_debug_file_of_another_build_is_refused() {
    let folder = built("g++ -g -O1 -Wl,--build-id=none");
    folder.run("objcopy --only-keep-debug queue queue.debug");
    folder.run("objcopy --strip-all --add-gnu-debuglink=queue.debug queue stripped");
    assert!(
        matches!(told(&folder, "stripped").0, DebugStatus::Separate { .. }),
        "the checksum fits"
    );
    folder.write("queue.cpp", &format!("\n{QUEUE}"));
    folder.run("g++ -g -O1 -Wl,--build-id=none queue.cpp -o other");
    folder.run("objcopy --only-keep-debug other queue.debug");
    let (status, lines, problems) = told(&folder, "stripped");
    assert!(
        matches!(status, DebugStatus::Missing { tried } if tried.iter().any(|path| path.ends_with("queue.debug")))
    );
    assert!(lines.is_empty());
    assert_eq!(problems, ["the debug file queue.debug is of another build"]);
}

#[test]
fn compressed_sections_say_the_same() {
    let folder = built("g++ -g -O1");
    let (_, expected, _) = told(&folder, "queue");
    for format in ["zlib", "zlib-gnu"] {
        folder.run(&format!(
            "objcopy --compress-debug-sections={format} queue compressed"
        ));
        let (_, compressed, problems) = told(&folder, "compressed");
        assert_eq!((compressed, problems), (expected.clone(), Vec::new()), "{format}");
    }
}

#[test]
fn split_objects_and_their_package_say_the_same() {
    let packers = [
        ("g++", "dwp -e queue -o queue.dwp"),
        ("clang++", "llvm-dwp -e queue -o queue.dwp"),
    ];
    for (compiler, pack) in packers {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let folder = built(&format!("{compiler} {version} -O1"));
            let (_, expected, _) = told(&folder, "queue");
            folder.run(&format!(
                "{compiler} {version} -O1 -gsplit-dwarf -c queue.cpp -o queue.o"
            ));
            folder.run(&format!("{compiler} queue.o -o queue"));
            let (_, split, problems) = told(&folder, "queue");
            assert_eq!(
                (&split, &problems),
                (&expected, &Vec::new()),
                "{compiler} {version}"
            );
            // binutils' dwp does not know version 5.
            if !(compiler == "g++" && version == "-gdwarf-5") {
                folder.run(pack);
                folder.run("rm queue.dwo");
                let (_, packed, problems) = told(&folder, "queue");
                assert_eq!(
                    (&packed, &problems),
                    (&expected, &Vec::new()),
                    "{compiler} {version} package"
                );
                folder.run("rm queue.dwp");
            } else {
                folder.run("rm queue.dwo");
            }
            let (_, lines, problems) = told(&folder, "queue");
            // Lines are in the skeleton's file; what was inlined on them is not.
            assert!(!lines.is_empty() && lines.len() <= expected.len());
            assert!(
                problems.iter().any(|problem| problem.contains("queue.dwo")),
                "{problems:?}"
            );
        }
    }
}

#[test]
fn parts_that_dwz_moved_are_found() {
    let folder = built("g++ -gdwarf-4 -O1");
    folder.run("cp queue twin");
    let (_, expected, _) = told(&folder, "queue");
    folder.run("dwz -m common.debug queue twin");
    assert!(folder.run("readelf -S queue").contains(".gnu_debugaltlink"));
    let (_, shared, problems) = told(&folder, "queue");
    assert_eq!((shared, problems), (expected, Vec::new()));
    folder.run("rm common.debug");
    let (_, _, problems) = told(&folder, "queue");
    assert!(
        problems.iter().any(|problem| problem.contains("common.debug")),
        "{problems:?}"
    );
}

#[test]
fn line_tables_alone_give_frames_without_variables() {
    let folder = built("clang++ -gline-tables-only -O1");
    let files = FolderFiles::new(&folder, "queue");
    let sources = Sources::load(&files.elf(), files);
    let found = sources
        .addresses_of("queue.cpp", line_of(QUEUE, "// stores"))
        .expect("code")
        .matches;
    let frames = sources.frames_at(found[0].range.start);
    assert_eq!(
        frames[0]
            .function
            .as_deref()
            .map(|name| name.ends_with("push_at")),
        Some(true),
        "{frames:?}"
    );
    assert!(frames.len() >= 2);
    assert_eq!(sources.variables_at(found[0].range.start), []);
}

#[test]
fn whole_program_optimisation_keeps_names_and_lines() {
    let folder = built("g++ -g -O2 -flto");
    let (_, lines, problems) = told(&folder, "queue");
    assert!(lines.len() > 10 && problems.is_empty(), "{problems:?}");
    let functions: Vec<_> = lines
        .iter()
        .flat_map(|(_, frames, _)| frames)
        .map(|frame| &frame.function)
        .collect();
    let has = |name: &str| functions.iter().any(|function| function.as_deref() == Some(name));
    assert!(has("main") && has("ns::Queue<int>::pop"), "{functions:?}");
}

#[test]
fn rust_names_are_whole_with_line_tables_alone() {
    let text = "mod jobs { #[inline(never)] pub fn run<T: Into<u64>>(item: T) -> u64 { item.into() + 1 } // here\n }\n\
                fn main() { std::process::exit(jobs::run(std::env::args().count() as u32) as i32) }\n";
    let folder = Folder::new("files");
    folder.write("jobs.rs", text);
    folder.run("rustc -C debuginfo=line-tables-only -O jobs.rs");
    let files = FolderFiles::new(&folder, "jobs");
    let sources = Sources::load(&files.elf(), files);
    let found = sources
        .addresses_of("jobs.rs", line_of(text, "// here"))
        .expect("code")
        .matches;
    let frames = sources.frames_at(found[0].range.start);
    assert_eq!(
        frames.last().and_then(|frame| frame.function.as_deref()),
        Some("jobs::jobs::run"),
        "{frames:?}"
    );
}
