//! Which failures of real programs are taken for one bug.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod support;

use std::fs;

use failure::core_dump::CoreDump;
use failure::image::{Limits, report};
use failure::{Kind, Likeness, resolve};
use program::{FileRequest, Files, Module, Program};
use support::real::{Disk, Folder, build_from, crash};

struct Nothing;

impl Files for Nothing {
    fn open(&self, _: &FileRequest) -> Option<&[u8]> {
        None
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        bytes.leak()
    }

    fn tried(&self, _: &FileRequest) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn assertions_about_one_member_are_one_bug_and_others_are_not() {
    for options in [["-O0"], ["-O2"]] {
        let folder = Folder::new();
        let path = build_from("refs.c", &folder, "gcc", &options);
        let bytes = fs::read(&path).unwrap();
        let likeness = |how| {
            let core = crash(&path, &[how])?;
            let report = report(
                &CoreDump::parse(&core).unwrap(),
                &Disk::default(),
                Limits::default(),
            );
            assert!(matches!(report.kind, Kind::Assertion | Kind::Abort));
            let name = path.canonicalize().unwrap();
            let module = Module::load(name.to_str().unwrap(), &bytes, &Nothing).unwrap();
            let program = Program::new(vec![module]);
            Some(Likeness::of(&resolve(&report, &program).unwrap(), &program))
        };
        let (Some(take), Some(put), Some(mark)) = (likeness("take"), likeness("put"), likeness("mark"))
        else {
            return;
        };
        assert!(
            take.is_like(&put) && put.is_like(&take),
            "{options:?} {take:?} {put:?}"
        );
        assert!(!take.is_like(&mark), "{options:?} {take:?} {mark:?}");
    }
}
