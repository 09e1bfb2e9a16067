//! Traces of real processors: both decoders must find what the table beside the traces says.

use std::path::{Path, PathBuf};

use failsketch_tests::command;
use failsketch_tests::skip::skipped;
use serde_json::Value;

/// Where the traces are: `$FAILSKETCH_PT_TRACES`, or beside the project. They are too large to be a part of it.
fn folder() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/pt-traces");
    std::env::var_os("FAILSKETCH_PT_TRACES").map_or(beside, PathBuf::from)
}

/// A row of the table: name, instructions, first, last, FNV-1a.
fn rows(readme: &str) -> Vec<Vec<String>> {
    let rows = readme.lines().filter_map(|line| line.trim().strip_prefix('|'));
    let rows = rows.map(|line| {
        line.split('|')
            .map(|cell| cell.trim().replace(',', ""))
            .collect::<Vec<_>>()
    });
    rows.filter(|cells| cells.get(2).is_some_and(|count| count.parse::<u64>().is_ok()) && cells.len() >= 6)
        .collect()
}

fn decode(folder: &Path, name: &str, decoder: &str, trace: &Path) -> Result<Value, String> {
    let file = |extension: &str| folder.join(format!("{name}.{extension}")).into_os_string();
    command::json([
        "decode".into(),
        "--pt".into(),
        trace.into(),
        "--pages".into(),
        file("pages"),
        "--addrs".into(),
        file("addr"),
        "--decoder".into(),
        decoder.into(),
        "--json".into(),
    ])
}

#[test]
fn are_decoded_as_the_table_says() {
    let folder = folder();
    let Ok(readme) = std::fs::read_to_string(folder.join("README.md")) else {
        return skipped("no traces of real processors here: set FAILSKETCH_PT_TRACES to a folder of them");
    };
    let rows = rows(&readme);
    assert!(!rows.is_empty(), "no table in {}", folder.display());
    for row in rows {
        let name = &row[0];
        for decoder in ["own", "libipt"] {
            let trace = folder.join(format!("{name}.pt"));
            let found =
                decode(&folder, name, decoder, &trace).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            assert_eq!(found["instructions"].to_string(), row[2], "{name} by {decoder}");
            assert_eq!(
                [text("first"), text("last"), text("fnv1a")],
                row[3..6],
                "{name} by {decoder}"
            );
            let errors = found["gaps"].as_array().unwrap().iter();
            let errors: Vec<_> = errors
                .filter(|gap| gap["why"] != "the processor lost packets")
                .collect();
            assert!(errors.is_empty(), "{name} by {decoder}: {errors:?}");
        }
    }
}

#[test]
fn cut_short_are_a_beginning() {
    let folder = folder();
    let Ok(trace) = std::fs::read(folder.join("foo.pt")) else {
        return skipped("no traces of real processors here: set FAILSKETCH_PT_TRACES to a folder of them");
    };
    let cut = std::env::temp_dir().join(format!("failsketch-cut-{}.pt", std::process::id()));
    for length in [0, 1, 15, 16, 17, 70, 1000, 5001, 20_003, trace.len() - 1] {
        std::fs::write(&cut, &trace[..length]).unwrap();
        let own = decode(&folder, "foo", "own", &cut).unwrap();
        let libipt = decode(&folder, "foo", "libipt", &cut).unwrap();
        assert_eq!(own["fnv1a"], libipt["fnv1a"], "the first {length} bytes");
        assert_eq!(
            own["instructions"], libipt["instructions"],
            "the first {length} bytes"
        );
    }
    std::fs::remove_file(&cut).unwrap();
}

#[test]
fn of_files_that_do_not_belong_together_are_refused() {
    let folder = std::env::temp_dir().join(format!("failsketch-pages-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("a.pt", &[0; 16]);
    write("a.pages", &[0; 4096]);
    for addresses in [&[0_u8; 7][..], &[0; 16]] {
        write("a.addr", addresses);
        let error = decode(&folder, "a", "own", &folder.join("a.pt")).unwrap_err();
        assert!(error.contains("do not fit together"), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
