//! The symbols that a stripped file carries along in `.gnu_debugdata`.

mod support;

use program::Module;
use support::{Folder, FolderFiles, NoFiles};

/// What is exported (`-rdynamic`) is in the dynamic table, the rest is packed.
const PROGRAM: &str = "
static int counted;
__attribute__((noinline)) static int inner(int x) { return counted += x; }
__attribute__((noinline, visibility(\"hidden\"))) int hidden(int x) { return inner(x) * 3; }
int exported(int x) { return hidden(x) + 1; }
int main(int argc, char **argv) { (void)argv; return exported(argc); }
";

/// As rpm's find-debuginfo makes it.
const PACK: &str = "
set -e
export LC_ALL=C
nm -D full --format=posix --defined-only | awk '{ print $1 }' | sort > exported
nm full --format=posix --defined-only | awk '{ if ($2 == \"T\" || $2 == \"t\" || $2 == \"D\") print $1 }' | sort > all
comm -13 exported all > keep
objcopy --only-keep-debug full debug
objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=keep debug mini
xz --threads=0 -f -k mini
objcopy -S --add-section .gnu_debugdata=mini.xz full stripped
";

fn packed(flags: &str) -> Folder {
    let folder = Folder::new("packed");
    folder.write("program.c", PROGRAM);
    folder.write("pack.sh", PACK);
    folder.run(&format!("gcc -g -O1 {flags} program.c -o full"));
    folder.run("sh pack.sh");
    folder
}

fn module<'a>(bytes: &'a [u8], files: &'a NoFiles) -> Module<'a> {
    Module::load("program", bytes, files).expect("a linker wrote it")
}

/// The functions of the program's own that a file knows by name, with their sizes.
fn own_functions(bytes: &[u8]) -> Vec<(String, u64)> {
    let module = module(bytes, &NoFiles);
    let own = ["inner", "hidden", "exported", "main"];
    let functions = module.code().functions().iter();
    let named = functions.filter_map(|function| {
        let name = function.symbol.filter(|name| own.contains(name))?;
        Some((name.to_owned(), function.range.end.0 - function.range.start.0))
    });
    named.collect()
}

#[test]
fn functions_get_their_names_from_the_packed_table_and_the_dynamic_one() {
    for flags in ["-rdynamic", "", "-no-pie", "-shared -fPIC"] {
        let folder = packed(flags);
        let full = own_functions(&folder.read("full"));
        assert_eq!(full.len(), 4, "{flags}: {full:?}");
        assert_eq!(own_functions(&folder.read("stripped")), full, "{flags}");
    }
}

#[test]
fn a_function_of_the_packed_table_is_private_if_it_was() {
    let folder = packed("-rdynamic");
    let bytes = folder.read("stripped");
    let module = module(&bytes, &NoFiles);
    let functions = module.code().functions();
    let local = |name: &str| {
        let function = functions.iter().find(|function| function.symbol == Some(name));
        functions.is_local(function.expect("it has a name").id)
    };
    assert!(local("inner"));
    assert!(!local("exported"));
}

#[test]
fn a_separate_debug_file_is_better() {
    let folder = packed("-Wl,--build-id");
    folder.run("objcopy --only-keep-debug full full.debug");
    folder.run("objcopy --add-gnu-debuglink=full.debug stripped linked");
    let files = FolderFiles::new(&folder, "linked");
    let module = Module::load("linked", files.binary(), files).expect("a linker wrote it");
    assert!(module.has_debug_information());
    assert!(
        module
            .code()
            .functions()
            .iter()
            .any(|function| function.symbol == Some("inner"))
    );
}

#[test]
fn what_unpacks_to_more_than_a_symbol_table_could_is_left() {
    let folder = packed("");
    // Half a gigabyte of the same in some eighty kilobytes.
    folder.write(
        "bomb.sh",
        "head -c 536870912 /dev/zero | xz -1 > bomb.xz && objcopy -S --add-section .gnu_debugdata=bomb.xz full bomb",
    );
    folder.run("sh bomb.sh");
    assert_eq!(own_functions(&folder.read("bomb")), []);
}

#[test]
fn a_damaged_table_is_none() {
    let folder = packed("");
    let bytes = folder.read("stripped");
    let packed = folder.read("mini.xz");
    let at = bytes
        .windows(packed.len())
        .position(|window| window == packed)
        .expect("it is in the file");
    for offset in (0..packed.len()).step_by(packed.len() / 97) {
        for damage in [0x01_u8, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at + offset] ^= damage;
            assert_eq!(own_functions(&damaged), [], "byte {offset} with {damage:#x}");
        }
    }
}
