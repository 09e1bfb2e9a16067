use diagnosis::record::RunRecord;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A record with something in every field.
fn record() -> Value {
    json!({
        "number": 7, "pid": 100, "sigma": 4,
        "end": {"failed": failed()},
        "elapsed_ns": 5000,
        "modules": [{
            "path": "/opt/app/server", "build_id": null,
            "start": addr(0x1000), "end": addr(0x9000), "bias": 0x1000, "executable": true
        }],
        "threads": [{"tid": 100, "stack": [addr(0x1100), addr(0x1200)]}],
        "watched": [{
            "module": null, "access": addr(0x110), "width": 8, "late": false,
            "fixed": ["/lib/x.so", addr(0x40)]
        }],
        "hits": [hit(100, 0x1110), hit(101, 0x1118)],
        "lost": 0, "data_flow": "exact", "cut_short": null,
        "flow": {
            "recording": recording(),
            "ranges": [{"module": 0, "start": addr(0x100), "end": addr(0x200)}],
            "branches": [{"module": 0, "addr": addr(0x110)}],
            "until_ns": 17
        },
        "allocations": {"blocks": [{"addr": addr(0x5000), "size": 16, "stack": [addr(1)], "alike": [1]}]}
    })
}

/// Addresses as records have them.
fn addr(addr: u64) -> Value {
    serde_json::to_value(program::RunAddr(addr)).unwrap()
}

fn hit(tid: u32, pc: u64) -> Value {
    json!({
        "tid": tid, "time_ns": 10, "pc": addr(pc), "callers": [addr(0x1200)], "access": "W",
        "addr": addr(0x5000), "location": 0, "value": 1, "before": 0
    })
}

fn recording() -> Value {
    use pt_driver_client::recorder::{Clock, Recording, Source};
    let recording = Recording::empty(Source::SoftwarePt, Clock::Monotonic);
    let mut value = serde_json::to_value(recording).unwrap();
    value["spaces"] = json!([{"modules": [{"module": 0, "bias": 0x1000, "build_id": null}]}]);
    value["threads"] = json!([{"tid": 100, "space": 0, "bytes": "0282028202820282"}]);
    value
}

fn failed() -> Value {
    json!({
        "source": "Live", "kind": "Signal", "signal": 11, "message": "what it said\nin lines", "fault_address": addr(0),
        "program": "server", "build_id": null,
        "threads": [{
            "id": 100, "name": "worker",
            "frames": [{
                "address": addr(0x1100), "module": {"path": "/opt/app/server", "addr": null, "file_offset": null, "build_id": null},
                "symbol": {"name": "f", "offset": 4}, "location": {"file": "a.c", "line": 3, "column": null},
                "position": "Exact", "inlined": false, "origin": "Context"
            }]
        }],
        "failing": 0, "notes": ["strange"]
    })
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// What is said when a field has another value.
fn with(pointer: &str, value: Value) -> String {
    let mut record = record();
    *record.pointer_mut(pointer).expect(pointer) = value;
    run(&bytes(&record)).expect_err(pointer).to_string()
}

fn many(count: usize, value: &Value) -> Value {
    Value::Array(vec![value.clone(); count])
}

#[test]
fn what_is_right_is_taken() {
    let taken = run(&bytes(&record())).unwrap();
    assert_eq!(taken.number, 7);
    assert_eq!(taken.hits.len(), 2);
    report(&bytes(&failed())).unwrap();
    let with_more = {
        let mut record = record();
        record["from_a_newer_agent"] = json!({"x": 1});
        record
    };
    run(&bytes(&with_more)).expect("a field that is not known is left alone");
}

#[test]
fn what_is_too_much_says_where() {
    for (pointer, value, path) in [
        ("/hits", many(HITS + 1, &hit(1, 2)), "hits: 100001"),
        (
            "/watched",
            many(WATCHED + 1, &record()["watched"][0]),
            "watched: 65",
        ),
        ("/modules", many(5000, &record()["modules"][0]), "modules: 5000"),
        (
            "/modules/0/path",
            json!("x".repeat(1 << 20)),
            "modules[0].path: 1048576",
        ),
        (
            "/threads",
            many(70_000, &record()["threads"][0]),
            "threads: 70000",
        ),
        ("/threads/0/stack", many(5000, &addr(1)), "threads[].stack: 5000"),
        ("/hits/0/callers", many(5000, &addr(1)), "hits[].callers: 5000"),
        ("/cut_short", json!("x".repeat(5000)), "cut_short: 5000"),
        (
            "/flow/ranges",
            many(20_000, &record()["flow"]["ranges"][0]),
            "flow.ranges: 20000",
        ),
        (
            "/flow/branches",
            many(70_000, &record()["flow"]["branches"][0]),
            "flow.branches: 70000",
        ),
        (
            "/flow/recording/spaces",
            many(17, &json!({"modules": []})),
            "flow.recording.spaces: 17",
        ),
        (
            "/flow/recording/threads/0/bytes",
            json!("00".repeat(TRACES + 1)),
            "flow.recording.threads[].bytes: 2097153",
        ),
        (
            "/allocations/blocks",
            many(70_000, &record()["allocations"]["blocks"][0]),
            "allocations.blocks: 70000",
        ),
        (
            "/end/failed/notes",
            many(2000, &json!("x")),
            "end.failed.notes: 2000",
        ),
        (
            "/end/failed/message",
            json!("x".repeat(1 << 20)),
            "end.failed.message: 1048576",
        ),
        (
            "/end/failed/threads/0/frames/0/symbol/name",
            json!("x".repeat(1 << 20)),
            "end.failed.threads[0].frames[0].symbol.name",
        ),
    ] {
        let said = with(pointer, value);
        assert!(said.contains(path), "{pointer}: {said}");
    }
    let large = vec![b' '; proto::MOST_MESSAGE + 1];
    assert!(run(&large).unwrap_err().to_string().contains("at most 16777216"));
    assert!(report(&large).is_err());
}

#[test]
fn what_cannot_be_says_where() {
    for (pointer, value, words) in [
        (
            "/hits/1/location",
            json!(1),
            ["hits[1].location", "nothing with that number"],
        ),
        ("/hits/1/tid", json!(-1), ["hits[1].tid", "-1"]),
        (
            "/hits/1/tid",
            json!(1_u64 << 40),
            ["hits[1].tid", "1099511627776"],
        ),
        ("/hits/0/value", json!(1.5), ["hits[0].value", "floating point"]),
        ("/hits/0/access", json!("X"), ["hits[0].access", "X"]),
        ("/number", json!("seven"), ["number", "string"]),
        (
            "/modules/0/path",
            json!("a\u{1b}[2J"),
            ["modules[0].path", "control character"],
        ),
        (
            "/modules/0/start",
            addr(0xffff),
            ["modules[0].end", "ends before"],
        ),
        (
            "/watched/0/fixed/0",
            json!("a\nb"),
            ["watched[0].module", "control character"],
        ),
        (
            "/flow/recording/threads/0/space",
            json!(9),
            ["flow.recording.threads[0].space", "no space"],
        ),
        (
            "/flow/recording/threads/0/bytes",
            json!("0"),
            ["flow.recording.threads[0].bytes", "hexadecimal"],
        ),
        (
            "/allocations/blocks/0/alike",
            json!([]),
            ["allocations.blocks[0].alike", "each address"],
        ),
        (
            "/end/failed/failing",
            json!(1),
            ["end.failed.failing", "no thread"],
        ),
        (
            "/end/failed/threads/0/name",
            json!("\u{0}"),
            ["end.failed.threads[0].name", "control"],
        ),
        ("/end", json!("exploded"), ["end", "exploded"]),
        ("/hits", Value::Null, ["hits", "null"]),
    ] {
        let said = with(pointer, value);
        for word in words {
            assert!(said.contains(word), "{pointer}: {word:?} is not in {said}");
        }
    }
    for (text, words) in [
        ("", "EOF"),
        ("[]", "cannot be read"),
        ("{\"number\": 7", "EOF"),
        ("nonsense", "cannot be read"),
        ("{\"number\": 1e400}", "number"),
    ] {
        let said = run(text.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(words), "{text}: {said}");
    }
    let twice = [bytes(&record()), b" {}".to_vec()].concat();
    assert!(run(&twice).unwrap_err().to_string().contains("trailing"));
    assert!(run(b"\xff\xfe{}").is_err());
}

#[test]
fn depth_without_end_is_refused() {
    for field in ["hits", "end", "not_known"] {
        for open in ["[", "{\"failed\":"] {
            let deep = format!("{{\"{field}\": {}", open.repeat(1_000_000));
            assert!(run(deep.as_bytes()).is_err(), "{field}");
            assert!(report(deep.as_bytes()).is_err(), "{field}");
        }
    }
}

#[test]
fn what_a_sender_wrote_is_not_repeated_at_length() {
    let said = with("/end", json!("\u{1b}[31m".repeat(100_000)));
    assert!(said.len() < 1000 && !said.contains('\u{1b}'), "{}", said.len());
    let mut record = record();
    record["end"] = json!({"\u{202e}".repeat(1000): 1});
    let said = run(&bytes(&record)).unwrap_err().to_string();
    assert!(said.len() < 1000 && !said.contains('\u{202e}'), "{said}");
}

#[test]
fn a_record_of_a_million_predictors_is_refused() {
    let mut record = record();
    let hits: Vec<Value> = (0..20_000_u32)
        .map(|n| hit(n * 7919 % 997, 0x1000 + u64::from(n * 104_729 % 1009)))
        .collect();
    record["hits"] = Value::Array(hits);
    let said = run(&bytes(&record)).unwrap_err().to_string();
    assert!(said.contains("orders and interleavings"), "{said}");
}

/// Whether what was taken keeps the limits, looked at from outside.
fn keeps_limits(record: &RunRecord) -> bool {
    let names = record.modules.iter().map(|module| &module.path);
    let names = names.chain(
        record
            .watched
            .iter()
            .filter_map(|watched| watched.module.as_ref()),
    );
    let traces = record.flow.iter().flat_map(|flow| &flow.recording.threads);
    record.hits.len() <= HITS
        && record.watched.len() <= WATCHED
        && record
            .hits
            .iter()
            .all(|hit| (hit.location as usize) < record.watched.len())
        && names
            .into_iter()
            .all(|name| name.len() <= 4096 && !name.contains(char::is_control))
        && traces.map(|trace| trace.bytes.len()).sum::<usize>() <= TRACES
}

/// The places in a value, as pointers.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(items) => (0..items.len()).for_each(|n| pointers(&items[n], &format!("{at}/{n}"), all)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, field)| pointers(field, &format!("{at}/{name}"), all)),
        _ => {}
    }
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u64..100).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "[0-9a-f]{0,64}".prop_map(Value::from),
        (4090_usize..4100).prop_map(|length| "x".repeat(length).into()),
        (60_usize..70).prop_map(|count| many(count, &record()["watched"][0])),
        Just(json!([])),
        Just(json!({})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_records_are_taken_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), anything()), 1..4)) {
        let mut record = record();
        for (which, value) in changes {
            let mut all = Vec::new();
            pointers(&record, "", &mut all);
            if let Some(place) = record.pointer_mut(which.get::<String>(&all).as_str()) {
                *place = value;
            }
        }
        match run(&bytes(&record)) {
            Ok(taken) => prop_assert!(keeps_limits(&taken)),
            Err(refusal) => prop_assert!(refusal.to_string().len() < 1000),
        }
        if let Some(end) = record.pointer("/end/failed") {
            _ = report(&bytes(end));
        }
    }

    #[test]
    fn changed_bytes_are_taken_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
        let mut text = bytes(&record());
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if let Ok(taken) = run(&text) {
            prop_assert!(keeps_limits(&taken));
        }
        _ = run(&text[..cut.index(text.len())]);
    }
}
