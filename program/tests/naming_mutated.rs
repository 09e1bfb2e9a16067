//! Names from damaged debug information: any answer will do, but there has to be one.

mod support;

use std::sync::LazyLock;

use object::{Object as _, ObjectSection as _};
use program::Module;
use program::code::InstrIx;
use program::naming::Namer;
use program::values::Values;
use proptest::prelude::*;
use support::{Folder, NoFiles};

/// A program and the places of its debug sections.
struct Sample {
    bytes: Vec<u8>,
    sections: Vec<(usize, usize)>,
}

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let builds = ["gcc -gdwarf-4 -O0", "gcc -gdwarf-5 -O2", "clang -gdwarf-5 -O2"];
    builds.iter().map(|build| sample(build)).collect()
});

fn sample(build: &str) -> Sample {
    let folder = Folder::new("naming-mutated");
    let text = include_str!("programs/paths.c").replace(
        "#include <stdlib.h>",
        "void *calloc(unsigned long, unsigned long);",
    );
    folder.write("paths.c", &text);
    folder.run(&format!("{build} paths.c -o built"));
    let bytes = folder.read("built");
    let file = object::File::parse(&*bytes).expect("a compiler wrote it");
    let sections = file
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug_")))
        .filter_map(|section| section.file_range())
        .map(|(start, size)| (start as usize, size as usize))
        .collect();
    Sample {
        sections,
        bytes: bytes.clone(),
    }
}

fn name_everything(bytes: Vec<u8>) -> usize {
    let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
    let module = Module::load("built", bytes, &NoFiles).expect("its headers are whole");
    let mut found = 0;
    for function in module.code().functions().ids() {
        let flow = module.code().flow(function);
        let values = Values::analyse(&flow, &|slot| module.constant_pointer(slot));
        let namer = Namer::new(&module, &flow, &values);
        for ix in (0..).map(InstrIx).take(flow.instructions.len()) {
            for access in values.accesses(ix) {
                let name = namer.name(ix, access);
                assert!(name.as_ref().is_none_or(|name| name.path.len() <= 200));
                found += usize::from(name.is_some());
            }
        }
    }
    found
}

#[test]
fn undamaged_programs_have_names() {
    for sample in SAMPLES.iter() {
        assert!(name_everything(sample.bytes.clone()) > 30);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

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
        name_everything(bytes);
    }
}
