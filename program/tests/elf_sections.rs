//! Sections and tables of an ELF file in the forms that linkers and `objcopy` write.

mod support;

use program::LinkAddr;
use program::elf::Elf;
use support::{Folder, FolderFiles};

const SOURCE: &str = r"
int numbers[4] = { 1, 2, 3, 4 };
int *pointers[72] = { &numbers[0], &numbers[3], 0, &numbers[1], [63] = &numbers[2], [71] = &numbers[0] };
int main(void) { return *pointers[0]; }
";

fn built(command: &str) -> Folder {
    let folder = Folder::new("sections");
    folder.write("program.c", SOURCE);
    folder.run(&format!("{command} program.c -o program"));
    folder
}

#[test]
fn compressed_sections_read_like_plain_ones() {
    let folder = built("gcc -g -O1");
    let plain = FolderFiles::new(&folder, "program");
    let expected = plain.elf();
    let raw = |elf: &Elf<'static>, name: &str| elf.section(name).map(|(_, bytes)| bytes);
    // The first word of a compressed section says by which method.
    for (format, method) in [("zlib", Some(1u32)), ("zstd", Some(2)), ("zlib-gnu", None)] {
        folder.run(&format!(
            "objcopy --compress-debug-sections={format} program {format}"
        ));
        let files = FolderFiles::new(&folder, format);
        let elf = files.elf();
        match method {
            Some(method) => {
                let bytes = raw(&elf, ".debug_info").expect("compressed in place");
                assert_eq!(bytes[..4], method.to_le_bytes(), "{format}");
            }
            None => assert!(raw(&elf, ".zdebug_info").is_some_and(|bytes| bytes.starts_with(b"ZLIB"))),
        }
        for name in [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"] {
            let found = elf.section_data(name, files).expect(name);
            assert_eq!(Some(found), raw(&expected, name), "{format} {name}");
        }
        assert_eq!(elf.section_data(".debug_of_nothing", files), None);
    }
}

#[test]
fn packed_relocations_are_pointers() {
    for command in [
        "gcc -Wl,-z,pack-relative-relocs",
        "clang -fuse-ld=lld -Wl,--pack-dyn-relocs=relr",
    ] {
        let folder = built(command);
        let elf = FolderFiles::new(&folder, "program").elf();
        let variable = |name: &str| {
            let symbol = elf.data_symbols().find(|symbol| symbol.name == name);
            symbol.expect(name).addr
        };
        let (numbers, pointers) = (variable("numbers"), variable("pointers"));
        let packed = elf.relocations().packed();
        // A word of the table covers 63 slots; the last pointers are in the second.
        for (slot, target) in [
            (0, Some(0)),
            (1, Some(3)),
            (3, Some(1)),
            (63, Some(2)),
            (71, Some(0)),
            (2, None),
            (64, None),
        ] {
            let slot: LinkAddr = pointers.offset(8 * slot);
            let target = target.map(|number: i64| numbers.offset(4 * number));
            assert_eq!(packed.contains(&slot.0), target.is_some(), "{command} {slot}");
            assert_eq!(elf.pointer_at(slot), target, "{command} {slot}");
        }
    }
}

/// The checksum of zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| {
        if crc & 1 == 1 {
            crc >> 1 ^ 0xedb8_8320
        } else {
            crc >> 1
        }
    };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

#[test]
fn links_to_debug_files_are_read() {
    let folder = built("gcc -g");
    folder.run("objcopy --only-keep-debug program program.debug");
    folder.run("objcopy --strip-debug --add-gnu-debuglink=program.debug program linked");
    let elf = FolderFiles::new(&folder, "linked").elf();
    let link = elf.debug_link().expect("a link");
    assert_eq!(link.name, "program.debug");
    assert_eq!(link.crc, crc32(&folder.read("program.debug")));

    // The path, a zero byte, and the other file's build-id.
    folder.write("alt", "../common/shared.debug\0\u{1}\u{2}\u{3}");
    folder.run("objcopy --add-section .gnu_debugaltlink=alt linked shared");
    let elf = FolderFiles::new(&folder, "shared").elf();
    let link = elf.debug_alt_link().expect("a link");
    assert_eq!(
        (link.path, link.build_id.0.as_slice()),
        ("../common/shared.debug", &[1, 2, 3][..])
    );

    // A name that never ends, and a name without its checksum.
    for (name, text) in [
        (".gnu_debuglink", "endless"),
        (".gnu_debuglink", "short\0"),
        (".gnu_debugaltlink", "endless"),
    ] {
        folder.write("broken", text);
        folder.run(&format!("objcopy --add-section {name}=broken program damaged"));
        let elf = FolderFiles::new(&folder, "damaged").elf();
        assert!(elf.section(name).is_some());
        assert_eq!(
            (elf.debug_link(), elf.debug_alt_link()),
            (None, None),
            "{name} {text}"
        );
    }
}
