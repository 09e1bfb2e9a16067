//! Frames, lines and functions of real programs, compared with what the source says and with llvm-symbolizer.

mod support;

use program::LinkAddr;
use program::source::{LineError, Sources};
use support::{Folder, FolderFiles, line_of};

const QUEUE: &str = include_str!("programs/queue.cpp");

fn built(flags: &str) -> (Folder, &'static FolderFiles) {
    let folder = Folder::new("frames");
    folder.write("src/queue.cpp", QUEUE);
    folder.run(&format!("{flags} src/queue.cpp -o queue"));
    let files = FolderFiles::new(&folder, "queue");
    (folder, files)
}

const BUILDS: [&str; 6] = [
    "g++ -gdwarf-4 -O0",
    "g++ -gdwarf-5 -O2",
    "g++ -gdwarf-5 -O2 -fdebug-types-section -gz=zlib",
    "clang++ -gdwarf-4 -O2",
    "clang++ -gdwarf-5 -O0",
    "clang++ -gdwarf-5 -O2 -gsplit-dwarf",
];

#[test]
fn a_line_in_an_inlined_function_has_the_whole_chain() {
    for flags in BUILDS {
        let (_folder, files) = built(flags);
        let sources = Sources::load(&files.elf(), files);
        let line = line_of(QUEUE, "// stores");
        let matches = sources.addresses_of("queue.cpp", line).expect(flags).matches;
        let chains: Vec<Vec<String>> = matches
            .iter()
            .map(|found| {
                let frames = sources.frames_at(found.range.start);
                assert_eq!(frames[0].line, line, "{flags}");
                assert!(
                    frames[0]
                        .file
                        .as_deref()
                        .is_some_and(|file| file.ends_with("/src/queue.cpp")),
                    "{flags}"
                );
                assert!(frames[0].inlined && !frames.last().expect("a frame").inlined);
                frames
                    .iter()
                    .map(|frame| frame.function.as_deref().unwrap_or("?").to_owned())
                    .collect()
            })
            .collect();
        let expected = ["ns::Queue<int>::push_at", "ns::Queue<int>::push"];
        assert!(
            chains
                .iter()
                .any(|chain| chain.starts_with(&expected.map(str::to_owned))),
            "{flags}: {chains:?}"
        );
        assert!(sources.problems().is_empty(), "{flags}: {:?}", sources.problems());
    }
}

#[test]
fn wrong_lines_are_explained() {
    let (_folder, files) = built("gcc -x c++ -g -O0 -lstdc++");
    let sources = Sources::load(&files.elf(), files);
    let comment = line_of(QUEUE, "namespace ns {");
    match sources.addresses_of("queue.cpp", comment) {
        Err(LineError::NoCode { nearest, line, .. }) => {
            assert_eq!(line, comment);
            assert_eq!(nearest, [line_of(QUEUE, "class Queue {")]);
        }
        other => panic!("{other:?}"),
    }
    match sources.addresses_of("src/qeue.cpp", 1) {
        Err(error @ LineError::NoFile { .. }) => assert!(error.to_string().contains("src/queue.cpp")),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        sources.addresses_of("other/queue.cpp", 1),
        Err(LineError::NoFile { .. })
    ));
}

#[test]
fn the_prologue_ends_before_the_first_statement() {
    for flags in ["g++ -g -O0", "clang++ -g -O0"] {
        let (_folder, files) = built(flags);
        let sources = Sources::load(&files.elf(), files);
        let statement = line_of(QUEUE, "if (count == 0)");
        let at = sources
            .addresses_of("queue.cpp", statement)
            .expect("code")
            .matches[0]
            .range
            .start;
        let function = sources.function_at(at).expect("a function");
        assert_eq!(function.prologue_end, Some(at), "{flags}");
        assert_eq!(
            function.name.as_deref().map(|name| name.ends_with("::pop")),
            Some(true)
        );
        assert_eq!(function.decl_line, line_of(QUEUE, "T Queue<T>::pop()"), "{flags}");
        assert_eq!(function.parameters.len(), 1);
    }
}

#[test]
fn frames_agree_with_llvm_symbolizer() {
    // llvm-symbolizer shows no inlined frames of split units.
    for flags in BUILDS.into_iter().filter(|flags| !flags.contains("split")) {
        let (folder, files) = built(flags);
        let sources = Sources::load(&files.elf(), files);
        let mut addresses = Vec::new();
        for line in 1..=u32::try_from(QUEUE.lines().count()).expect("short") {
            if let Ok(found) = sources.addresses_of("queue.cpp", line) {
                addresses.extend(found.matches.into_iter().map(|found| found.range.start));
            }
        }
        assert!(addresses.len() > 30, "{flags}");
        addresses.extend(addresses.clone().into_iter().map(|addr| addr.offset(1)));
        let theirs = symbolized(&folder, &addresses);
        assert_eq!(theirs.len(), addresses.len());
        for (addr, theirs) in addresses.into_iter().zip(theirs) {
            let ours: Vec<String> = sources.frames_at(addr).iter().map(shown).collect();
            assert_eq!(ours, theirs, "{flags}: {addr}");
        }
    }
}

fn shown(frame: &program::source::SourceFrame) -> String {
    let file = frame
        .file
        .as_deref()
        .unwrap_or("?")
        .rsplit('/')
        .next()
        .unwrap_or("?")
        .to_owned();
    format!(
        "{} {file}:{}",
        frame.function.as_deref().unwrap_or("?"),
        frame.line
    )
}

fn symbolized(folder: &Folder, addresses: &[LinkAddr]) -> Vec<Vec<String>> {
    let addresses: Vec<_> = addresses.iter().map(LinkAddr::to_string).collect();
    let command = "llvm-symbolizer --functions=linkage --no-demangle --obj=queue";
    let output = folder.run(&format!("{command} {}", addresses.join(" ")));
    let groups = output.split("\n\n").filter(|group| !group.trim().is_empty());
    groups.map(|group| frames_in(folder, group)).collect()
}

fn frames_in(folder: &Folder, group: &str) -> Vec<String> {
    let lines: Vec<&str> = group.lines().filter(|line| !line.is_empty()).collect();
    if lines.starts_with(&["??"]) {
        return Vec::new();
    }
    let names: Vec<&str> = lines.iter().step_by(2).copied().collect();
    let names = folder.run(&format!("c++filt -p {}", names.join(" ")));
    let places = lines.iter().skip(1).step_by(2).map(|place| {
        let (place, _column) = place.rsplit_once(':').expect("a column");
        place.rsplit('/').next().expect("a place")
    });
    names
        .lines()
        .zip(places)
        .map(|(name, place)| format!("{name} {place}"))
        .collect()
}
