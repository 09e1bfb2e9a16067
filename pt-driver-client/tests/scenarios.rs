//! Every scenario, by both decoders.

mod support;

use std::fmt::Write as _;

use pt_driver_client::code::Image;
use support::scenario::{self, Expected};
use support::{Item, Said, ours, theirs};

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
        if let Some(difference) = difference(&ours(&image, &scenario.trace), &scenario.flow) {
            let _ = write!(wrong, "{name}, ours:\n{difference}");
        }
        let expected = scenario.libipt.as_ref().unwrap_or(&scenario.flow);
        if let Some(difference) = difference(&theirs(&image, &scenario.trace), expected) {
            let _ = write!(wrong, "{name}, libipt:\n{difference}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
