//! Debug information that is in split objects or in a package of them: it says what it says in the program itself, also
//! when everything was moved.

use std::path::{Path, PathBuf};
use std::process::Command;

use failsketch_tests::folder::Folder;
use failsketch_tests::{command, process};
use serde_json::Value;

/// A compiler with options, and who packs what it makes. The packer of binutils does not know version 5, and that of LLVM 14
/// never ends on what g++ makes of it at -O2.
const BUILDS: [(&[&str], &str); 5] = [
    (&["g++", "-gdwarf-4", "-O0"], "dwp"),
    (&["g++", "-gdwarf-4", "-O2", "-fdebug-types-section"], "dwp"),
    (&["g++", "-gdwarf-5", "-O0", "-fdebug-types-section"], "llvm-dwp"),
    (&["clang++", "-gdwarf-4", "-O2"], "llvm-dwp"),
    (&["clang++", "-gdwarf-5", "-O2"], "llvm-dwp"),
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs/split")
        .join(name)
}

fn run(folder: &Path, words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let _ = process::tool(&mut command, folder);
}

/// Builds the program in a folder, with its objects beside it.
fn build(folder: &Path, compiler: &[&str], more: &[&str]) {
    for unit in ["main", "list"] {
        let (from, to) = (source(&format!("{unit}.cc")), format!("{unit}.o"));
        run(
            folder,
            &[compiler, more, &["-c", from.to_str().unwrap(), "-o", &to]].concat(),
        );
    }
    run(
        folder,
        &[compiler[0], "main.o", "list.o", "-Wl,--build-id", "-o", "app"],
    );
}

/// What a slice says: statements, their reasons and the names of what they touch.
fn told(exe: &Path, more: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(source("list.cc")).unwrap();
    let line = text.lines().position(|line| line.contains("@fail")).unwrap() + 1;
    let at = format!("list.cc:{line}");
    let words = ["slice", "--json", "--exe", exe.to_str().unwrap(), "--at", &at];
    let slice = command::json(words.iter().chain(more)).unwrap();
    let statements = slice["statements"].as_array().unwrap();
    let one = |found: &Value| {
        let statement = &found["statement"];
        let place = format!(
            "{} {}:{}",
            statement["function"], statement["file"], statement["line"]
        );
        format!(
            "{} {} {place} {}",
            found["distance"], found["why"], statement["accesses"]
        )
    };
    statements.iter().map(one).collect()
}

#[test]
fn a_moved_program_is_read_through_its_package() {
    for (compiler, packer) in BUILDS {
        let folder = Folder::new("split");
        let [whole, split, moved] = ["whole", "split", "moved"].map(|name| folder.path().join(name));
        for path in [&whole, &split, &moved] {
            std::fs::create_dir(path).unwrap();
        }
        build(&whole, compiler, &[]);
        let expected = told(&whole.join("app"), &[]);
        assert!(
            expected.len() > 3 && expected[0].contains("first->weight"),
            "{expected:?}"
        );

        build(&split, compiler, &["-gsplit-dwarf"]);
        assert_eq!(told(&split.join("app"), &[]), expected, "{compiler:?}, objects");

        run(&split, &[packer, "-e", "app", "-o", "app.dwp"]);
        for file in ["app", "app.dwp"] {
            std::fs::rename(split.join(file), moved.join(file)).unwrap();
        }
        std::fs::remove_dir_all(&split).unwrap();
        assert_eq!(told(&moved.join("app"), &[]), expected, "{compiler:?}, package");

        // Through a link in another folder.
        let link = folder.path().join("current");
        std::os::unix::fs::symlink(moved.join("app"), &link).unwrap();
        assert_eq!(told(&link, &[]), expected, "{compiler:?}, through a link");

        // Kept where debug files are kept.
        let symbols = folder.path().join("symbols");
        std::fs::create_dir(&symbols).unwrap();
        std::fs::rename(moved.join("app.dwp"), symbols.join("app.dwp")).unwrap();
        let more = ["--debug-dir", symbols.to_str().unwrap()];
        assert_eq!(
            told(&moved.join("app"), &more),
            expected,
            "{compiler:?}, --debug-dir"
        );

        // With the rest of the debug information in a file of its own.
        run(&moved, &["objcopy", "--only-keep-debug", "app", "app.debug"]);
        run(
            &moved,
            &["objcopy", "--strip-all", "--add-gnu-debuglink=app.debug", "app"],
        );
        std::fs::rename(symbols.join("app.dwp"), moved.join("app.debug.dwp")).unwrap();
        assert_eq!(
            told(&moved.join("app"), &[]),
            expected,
            "{compiler:?}, beside a debug file"
        );
    }
}
