//! Damaged programs: whatever the bytes say, nothing panics and nothing takes long.

mod support;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use program::code::{Code, demangle};
use program::elf::Elf;
use program::{BuildId, LinkAddr};
use proptest::prelude::*;
use support::{Folder, NoFiles};

fn sample(flags: &str) -> Vec<u8> {
    let folder = Folder::new("damage");
    folder.write("switches.c", include_str!("programs/switches.c"));
    folder.run(&format!("{flags} switches.c -o program"));
    folder.read("program")
}

fn samples() -> &'static [Vec<u8>; 3] {
    static SAMPLES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        [
            "gcc -g -gz -O2",
            "clang -O0 -no-pie -fno-pie",
            "gcc -O2 -Wl,-z,pack-relative-relocs",
        ]
        .map(sample)
    })
}

/// Asks everything that can be asked of a file.
fn exercise(bytes: &[u8]) {
    let Ok(elf) = Elf::parse(bytes) else { return };
    let elf = Arc::new(elf);
    let _: Option<BuildId> = elf.build_id();
    let _ = (
        elf.debug_link(),
        elf.debug_alt_link(),
        elf.interp(),
        elf.is_stripped(),
    );
    let code = Code::new(Arc::clone(&elf));
    code.sweep(|graph| {
        for ix in graph.blocks.iter().flat_map(|block| block.indices()) {
            assert!(graph.block_of(ix).is_some());
        }
    });
    for id in code.functions().ids().take(8) {
        let function = code.functions().get(id).expect("an id of this index");
        let _ = (
            code.callers_of(id),
            code.address_taken(function.entry),
            code.functions().display_name(id),
        );
        assert!(function.range.start <= function.range.end);
    }
    for symbol in elf.data_symbols().take(8) {
        let _ = code.references_to(&(symbol.addr..LinkAddr(symbol.addr.0.saturating_add(symbol.size))));
        let _ = elf.pointer_at(symbol.addr);
    }
    let _ = (
        code.functions().named("main"),
        code.functions().named("a::b"),
        code.call_index(),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_do_no_harm(
        which in 0usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
        in_headers in any::<bool>(),
    ) {
        let mut bytes = samples()[which].clone();
        // Tables at both ends matter most: file, program and dynamic headers; section headers and symbols.
        for (place, value) in changes {
            let len = bytes.len();
            let at = if in_headers { (len - 0x1200 + place.index(0x1600)) % len } else { place.index(len) };
            bytes[at] = value;
        }
        let start = Instant::now();
        exercise(&bytes);
        prop_assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn cut_files_do_no_harm(which in 0usize..3, keep in any::<prop::sample::Index>()) {
        let bytes = &samples()[which];
        exercise(&bytes[..keep.index(bytes.len())]);
    }

    #[test]
    fn words_that_mean_sizes_do_no_harm(which in 0usize..3, place in any::<prop::sample::Index>(), value in prop::sample::select(vec![u64::MAX, u64::MAX - 7, 1 << 63, 1 << 40, 1 << 30, 0])) {
        let mut bytes = samples()[which].clone();
        let at = place.index(bytes.len() / 8 - 1) * 8;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        exercise(&bytes);
    }

    #[test]
    fn compressed_sections_do_no_harm(place in any::<prop::sample::Index>(), value in any::<u64>()) {
        static FILES: NoFiles = NoFiles;
        let mut bytes = samples()[0].clone();
        let at = place.index(bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
        if let Ok(elf) = Elf::parse(bytes) {
            for name in [".debug_info", ".debug_line", ".debug_str", ".debug_abbrev"] {
                let _ = elf.section_data(name, &FILES);
            }
        }
    }

    #[test]
    fn names_do_no_harm(name in "_(Z|R)[A-Za-z0-9_$.]{0,200}") {
        let _ = demangle(&name);
    }
}

#[test]
fn a_function_that_claims_everything_is_cut_by_its_neighbours() {
    let bytes = sample("gcc -O0");
    let elf = Elf::parse(&bytes).expect("a program");
    let (_, symbols) = elf.section(".symtab").expect("symbols");
    let table = symbols.as_ptr() as usize - bytes.as_ptr() as usize;
    let (len, mut bytes) = (symbols.len(), bytes.clone());
    for at in (table..table + len).step_by(24) {
        if bytes[at + 4] & 15 == 2 {
            bytes[at + 16..at + 24].copy_from_slice(&(1u64 << 30).to_le_bytes());
        }
    }
    let code = Code::new(Arc::new(Elf::parse(&bytes).expect("a program")));
    let mut last = LinkAddr(0);
    for function in code.functions().iter() {
        assert!(last <= function.range.start, "{function:?} overlaps");
        last = function.range.end;
    }
    assert_eq!(code.functions().named("choose").len(), 1);
    exercise(&bytes);
}

#[test]
fn a_function_made_of_switches_takes_its_time_but_not_more() {
    let folder = Folder::new("switches");
    // Each reaches the next only by falling through a call, and has no bound.
    let one = "lea table(%rip),%rdx\nmovslq (%rdx,%rax,4),%rcx\nadd %rdx,%rcx\ntest %rax,%rax\nje 1f\njmp *%rcx\n1:\n";
    let text = format!(
        ".globl main\n.type main,@function\nmain:\n{}ret\n.size main,.-main\n.section .rodata\ntable:\n.fill 70000,4,0\n",
        one.repeat(60_000)
    );
    folder.write("switches.s", &text);
    folder.run("gcc -nostdlib -shared switches.s -o program");
    let bytes = folder.read("program");
    let code = Code::new(Arc::new(Elf::parse(&bytes).expect("a library")));
    let start = Instant::now();
    let main = code.functions().named("main")[0];
    assert!(code.flow(main).instructions.len() > 300_000);
    // A bound on the work, not on the machine: a busy one takes many times what an idle one does.
    assert!(
        start.elapsed() < Duration::from_secs(300),
        "{:?}",
        start.elapsed()
    );
}
