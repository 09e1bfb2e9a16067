//! `failsketch decode` is told how a trace was recorded: by which processor, with which clocks.

use failsketch_tests::command;
use failsketch_tests::folder::Folder;
use serde_json::Value;

/// Where the code is: `nop; syscall; nop; syscall`.
const CODE: u64 = 0x40_1000;
const BYTES: [u8; 6] = [0x90, 0x0f, 0x05, 0x90, 0x0f, 0x05];

/// A packet with a whole address: FUP, TIP.PGE.
fn with_address(header: u8, address: u64) -> Vec<u8> {
    let mut bytes = vec![header | 3 << 5];
    bytes.extend_from_slice(&address.to_le_bytes()[..6]);
    bytes
}

fn trace(parts: &[&[u8]]) -> Vec<u8> {
    let psb: &[u8] = &[0x02, 0x82].repeat(8);
    let mode_64: &[u8] = &[0x99, 0x01];
    [&[psb, mode_64], parts].concat().concat()
}

const PSBEND: [u8; 2] = [0x02, 0x23];
const TIP_PGD: [u8; 1] = [0x01];

fn decode(trace: &[u8], options: &[&str]) -> Result<Value, String> {
    let folder = Folder::new("decode");
    let mut page = BYTES.to_vec();
    page.resize(4096, 0);
    let files = [
        ("--pt", folder.write("a.pt", trace)),
        ("--pages", folder.write("a.pages", &page)),
        ("--addrs", folder.write("a.addr", CODE.to_le_bytes())),
    ];
    let files = files
        .iter()
        .flat_map(|(option, file)| [option.to_string(), file.display().to_string()]);
    let options = options.iter().map(|option| (*option).to_owned());
    command::json(
        ["decode".to_owned(), "--json".to_owned()]
            .into_iter()
            .chain(files)
            .chain(options),
    )
}

/// BDM70: PSB+ has a FUP although tracing is off; the TIP.PGE behind it says where it goes on.
#[test]
fn a_processor_s_defects_are_worked_around() {
    let fup = with_address(0x1d, CODE);
    let pge = with_address(0x11, CODE + 3);
    let trace = trace(&[&fup, &PSBEND, &pge, &TIP_PGD]);
    for decoder in ["own", "libipt"] {
        let broadwell = decode(&trace, &["--decoder", decoder, "--cpu", "6/61"]).unwrap();
        assert_eq!(broadwell["gaps"], serde_json::json!([]), "{decoder}");
        assert_eq!(broadwell["instructions"], 2, "{decoder}");
        assert_eq!(broadwell["first"], "0x401003", "{decoder}");
        let unknown = decode(&trace, &["--decoder", decoder]).unwrap();
        assert_ne!(unknown["gaps"], serde_json::json!([]), "{decoder}");
    }
}

/// TSC, TMA and an MTC: eight ticks of the crystal later, at 84 ticks of the counter each.
#[test]
fn clocks_refine_the_time() {
    let tsc = [0x19, 0, 0x10, 0, 0, 0, 0, 0];
    let tma = [0x02, 0x73, 0, 0, 0, 0, 0];
    let pge = with_address(0x11, CODE);
    let mtc = [0x59, 1];
    let trace = trace(&[&tsc, &tma, &PSBEND, &pge, &mtc, &TIP_PGD]);
    let untold = decode(&trace, &[]).unwrap();
    assert_eq!(
        untold["time"],
        serde_json::json!({ "first": 0x1000, "last": 0x1000 })
    );
    let told = decode(&trace, &["--mtc-freq", "3", "--tsc-ratio", "168/2"]).unwrap();
    assert_eq!(
        told["time"],
        serde_json::json!({ "first": 0x1000, "last": 0x1000 + 8 * 84 })
    );
}

#[test]
fn what_cannot_be_is_refused_with_what_is_expected() {
    for (option, value, expected) in [
        ("--cpu", "6", "such as 6/158"),
        ("--cpu", "6/1", "is known to record Intel PT"),
        ("--tsc-ratio", "168/0", "such as 168/2"),
        ("--mtc-freq", "16", "0..=15"),
        ("--nom-freq", "0", "--nom-freq"),
    ] {
        let finished = command::failsketch(["decode", option, value]);
        assert_eq!(finished.status.code(), Some(2), "{option} {value}");
        assert!(
            finished.stderr.contains(expected),
            "{option} {value}: {}",
            finished.stderr
        );
    }
}
