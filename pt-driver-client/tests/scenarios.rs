//! Every scenario, by both decoders.

mod support;

use std::fmt::Write as _;

use pt_driver_client::code::Image;
use pt_driver_client::config::{Config, Errata, Erratum, Processor};
use support::scenario::{self, Expected};
use support::{Item, Said, ours_with, theirs_with};

fn difference(said: &Said, expected: &[Expected]) -> Option<String> {
    let said: Vec<String> = said
        .items
        .iter()
        .map(|item| match item {
            Item::Ran(address) => format!("{address:#x}"),
            Item::Gap(why) => format!("gap {why:?}").to_lowercase(),
        })
        .collect();
    let expected: Vec<String> = expected
        .iter()
        .map(|item| match item {
            Expected::Ran(address) => format!("{address:#x}"),
            Expected::Gap(why) => format!("gap {why}").to_lowercase(),
        })
        .collect();
    (said != expected).then(|| {
        format!(
            "    said     {}\n    expected {}\n",
            said.join(" "),
            expected.join(" ")
        )
    })
}

#[test]
fn mean_what_they_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 30, "{} scenarios in {folder}", files.len());
    let mut wrong = String::new();
    for file in &files {
        let name = file.file_stem().unwrap().to_string_lossy();
        let scenario = scenario::read(&std::fs::read_to_string(file).unwrap());
        assert!(!scenario.flow.is_empty(), "{name} expects nothing");
        let image = Image::new([(scenario.base, scenario.code.as_slice())]);
        if let Some(difference) = difference(
            &ours_with(&image, &scenario.trace, scenario.config),
            &scenario.flow,
        ) {
            let _ = write!(wrong, "{name}, ours:\n{difference}");
        }
        let is_affected = name.starts_with("erratum-") && !name.ends_with("-not");
        let healthy = Config {
            errata: Errata::default(),
            ..scenario.config
        };
        let without = ours_with(&image, &scenario.trace, healthy);
        if is_affected && difference(&without, &scenario.flow).is_none() {
            let _ = writeln!(wrong, "{name} means the same on a processor without the defect");
        }
        let expected = scenario.libipt.as_ref().unwrap_or(&scenario.flow);
        if let Some(difference) = difference(&theirs_with(&image, &scenario.trace, scenario.config), expected)
        {
            let _ = write!(wrong, "{name}, libipt:\n{difference}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn processors_have_the_errata_that_libipt_knows() {
    for (family, model) in (0..=0x20).flat_map(|family| (0..=u8::MAX).map(move |model| (family, model))) {
        let theirs = tracee::libipt::Erratum::of(family, model).map(|errata| {
            errata
                .iter()
                .map(|erratum| format!("{erratum:?}"))
                .collect::<Vec<_>>()
        });
        let ours = Processor { family, model }.errata().map(|errata| {
            let all = Erratum::ALL.iter().filter(|&&erratum| errata.has(erratum));
            all.map(|erratum| format!("{erratum:?}")).collect::<Vec<_>>()
        });
        assert_eq!(ours, theirs, "family {family:#x}, model {model:#x}");
    }
}
