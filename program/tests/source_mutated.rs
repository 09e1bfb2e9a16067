//! Damaged debug information: any answer will do, but there has to be one.

mod support;

use std::sync::LazyLock;

use object::{Object as _, ObjectSection as _};
use program::LinkAddr;
use program::elf::Elf;
use program::source::{Sources, VarLocation};
use proptest::prelude::*;
use support::{Folder, NoFiles};

const QUEUE: &str = include_str!("programs/queue.cpp");

/// A program, the places of its debug sections, and addresses of its code.
struct Sample {
    bytes: Vec<u8>,
    sections: Vec<(usize, usize)>,
    code: Vec<u64>,
}

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let builds = [
        "g++ -gdwarf-4 -O1",
        "g++ -gdwarf-5 -O1 -fdebug-types-section",
        "clang++ -gdwarf-5 -O1",
    ];
    builds.iter().map(|build| sample(build)).collect()
});

fn sample(build: &str) -> Sample {
    let folder = Folder::new("mutated");
    // Without the headers' declarations, so that most bytes belong to something that is asked for.
    let text = QUEUE.replace("#include <cstdio>", "extern \"C\" int printf(const char *, ...);");
    let text = text.replace("#include <cstdlib>", "extern \"C\" void abort();");
    folder.write("queue.cpp", &text);
    folder.run(&format!("{build} queue.cpp -o queue"));
    let bytes = folder.read("queue");
    let file = object::File::parse(&*bytes).expect("a compiler wrote it");
    let sections = file
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug_")));
    let sections = sections.filter_map(|section| section.file_range());
    let sections = sections
        .map(|(start, size)| (start as usize, size as usize))
        .collect();
    let text = file.section_by_name(".text").expect("code");
    let code = (text.address()..text.address() + text.size())
        .step_by(16)
        .collect();
    Sample {
        sections,
        code,
        bytes: bytes.clone(),
    }
}

fn ask_everything(sample: &Sample, bytes: Vec<u8>) {
    let files: &'static NoFiles = &NoFiles;
    let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
    let sources = Sources::load(&Elf::parse(bytes).expect("its headers are whole"), files);
    for addr in sample.code.iter().map(|addr| LinkAddr(*addr)) {
        let _ = sources.frames_at(addr);
        if let Some(function) = sources.function_at(addr) {
            let _ = function.return_type.map(|ty| sources.ty(ty).name());
        }
        for variable in sources.variables_at(addr) {
            if let Some(ty) = variable.ty.map(|ty| sources.ty(ty)) {
                let _ = (ty.name(), ty.size(), ty.kind(), ty.members());
                let target = ty.pointee().unwrap_or(ty);
                let _ = (target.member_at(0, 0), target.member_at(20, 4), target.element());
            }
            if let VarLocation::Address(addr) = variable.location {
                let _ = sources.global_at(addr, None);
            }
        }
    }
    let (first, last) = (sample.code[0], sample.code[sample.code.len() - 1]);
    let _ = sources.line_rows(&(LinkAddr(first)..LinkAddr(last)));
    let _ = sources.addresses_of("queue.cpp", 25);
    let _ = sources.addresses_of("nothing.cpp", 25);
    let _ = sources.global_named("ns::counter");
    let _ = sources.global_at(LinkAddr(0x4000), Some(LinkAddr(first)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_do_no_harm(
        sample in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let sample = &SAMPLES[sample];
        let mut bytes = sample.bytes.clone();
        for (section, at, value) in changes {
            let (start, size) = sample.sections[section.index(sample.sections.len())];
            bytes[start + at.index(size)] = value;
        }
        ask_everything(sample, bytes);
    }

    #[test]
    fn shuffled_blocks_do_no_harm(
        sample in 0usize..3,
        moves in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..64), 1..4),
    ) {
        let sample = &SAMPLES[sample];
        let mut bytes = sample.bytes.clone();
        for (section, from, to, length) in moves {
            let (start, size) = sample.sections[section.index(sample.sections.len())];
            let length = length.min(size);
            let from = start + from.index(size - length + 1);
            let to = start + to.index(size - length + 1);
            bytes.copy_within(from..from + length, to);
        }
        ask_everything(sample, bytes);
    }
}
