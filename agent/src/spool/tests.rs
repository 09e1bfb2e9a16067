use proto::v1::{ReportFailureRequest, Run};
use tempfile::TempDir;

use super::*;

const ROOM: u64 = 1 << 20;

fn run(id: &str, bytes: usize) -> Item {
    Item::Run(Run {
        id: id.to_owned(),
        record: vec![b'x'; bytes].into(),
        ..Run::default()
    })
}

fn failure(id: &str) -> Item {
    Item::Failure(ReportFailureRequest {
        id: id.to_owned(),
        ..ReportFailureRequest::default()
    })
}

fn id(item: &Item) -> &str {
    match item {
        Item::Run(run) => &run.id,
        Item::Failure(failure) => &failure.id,
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &TempDir) -> Spool {
    Spool::open(folder.path(), ROOM).unwrap()
}

/// Takes everything out, in the order and the pieces in which it is sent.
fn drain(spool: &Spool) -> Vec<Vec<String>> {
    let mut batches = Vec::new();
    loop {
        let taken = spool.oldest();
        if taken.is_empty() {
            return batches;
        }
        batches.push(taken.iter().map(|(_, item)| id(item).to_owned()).collect());
        spool.remove(taken.into_iter().map(|(ticket, _)| ticket));
    }
}

#[test]
fn entries_come_out_in_their_order_failures_alone() {
    let folder = folder();
    let spool = open(&folder);
    for item in [run("1", 1), run("2", 1), failure("3"), failure("4"), run("5", 1)] {
        spool.push(&item).unwrap();
    }
    assert_eq!(drain(&spool), [vec!["1", "2"], vec!["3"], vec!["4"], vec!["5"]]);
    assert!(spool.is_empty());
    assert_eq!(spool.losses(), Losses::default());
}

#[test]
fn what_was_not_acknowledged_is_there_after_a_restart() {
    let folder = folder();
    let spool = open(&folder);
    for number in 0..20 {
        spool.push(&run(&format!("{number}"), 10)).unwrap();
    }
    let sent = spool.oldest();
    spool.remove(sent.iter().take(5).map(|(ticket, _)| *ticket));
    drop(spool);
    // Whoever was killed while writing leaves this.
    fs::write(folder.path().join("writing-00000000000000000099.entry"), "half").unwrap();
    let spool = open(&folder);
    spool.push(&run("20", 10)).unwrap();
    let left: Vec<String> = (5..=20).map(|number| number.to_string()).collect();
    assert_eq!(drain(&spool), [left]);
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "the lock is all that stays: {files:?}");
}

#[test]
fn the_oldest_go_when_there_is_no_room_and_are_counted() {
    let folder = folder();
    let spool = Spool::open(folder.path(), 10 * BLOCK).unwrap();
    for number in 0..25 {
        spool.push(&run(&format!("{number}"), 100)).unwrap();
    }
    assert_eq!(spool.len(), 10);
    assert_eq!(spool.losses().dropped, 15);
    // One that fits nowhere takes nobody's place.
    spool.push(&run("huge", 11 * BLOCK as usize)).unwrap();
    assert_eq!(spool.losses().dropped, 16);
    drop(spool);

    let spool = Spool::open(folder.path(), 10 * BLOCK).unwrap();
    assert_eq!(spool.losses().dropped, 16, "counted also after a restart");
    spool.told(10);
    assert_eq!(spool.losses().dropped, 6);
    let kept: Vec<String> = (15..25).map(|number| number.to_string()).collect();
    assert_eq!(drain(&spool), [kept]);
}

#[test]
fn what_is_on_its_way_is_not_dropped() {
    let folder = folder();
    let spool = Spool::open(folder.path(), 4 * BLOCK).unwrap();
    for number in 0..2 {
        spool.push(&run(&format!("{number}"), 100)).unwrap();
    }
    let sent = spool.oldest();
    for number in 2..6 {
        spool.push(&run(&format!("{number}"), 100)).unwrap();
    }
    assert_eq!(spool.losses().dropped, 2);
    spool.remove(sent.into_iter().map(|(ticket, _)| ticket));
    assert_eq!(drain(&spool), [["4", "5"]]);
}

#[test]
fn damaged_files_are_left_out_and_counted() {
    let folder = folder();
    let spool = open(&folder);
    for number in 0..4 {
        spool.push(&run(&format!("{number}"), 5000)).unwrap();
    }
    let path = |number| folder.path().join(Ticket(number).name());
    let mut bytes = fs::read(path(1)).unwrap();
    bytes[3000] ^= 1;
    fs::write(path(1), &bytes).unwrap();
    fs::write(path(2), &bytes[..2000]).unwrap();
    assert_eq!(drain(&spool), [["0", "3"]]);
    assert_eq!(spool.losses().corrupted, 2);
}

#[test]
fn a_message_is_never_too_large_and_what_fits_in_none_is_dropped() {
    let folder = folder();
    let spool = Spool::open(folder.path(), 200 << 20).unwrap();
    for number in 0..5 {
        spool.push(&run(&format!("{number}"), 6 << 20)).unwrap();
    }
    spool.push(&run("huge", proto::MOST_MESSAGE)).unwrap();
    assert_eq!(spool.losses().dropped, 1);
    assert_eq!(drain(&spool), [vec!["0", "1"], vec!["2", "3"], vec!["4"]]);
}

#[test]
fn a_spool_has_one_owner() {
    let folder = folder();
    let spool = open(&folder);
    assert!(matches!(
        Spool::open(folder.path(), ROOM),
        Err(SpoolError::InUse(_))
    ));
    drop(spool);
    open(&folder);
}

#[test]
fn other_files_are_left_alone() {
    let folder = folder();
    let stranger = folder.path().join("7.entry");
    fs::write(&stranger, "whose?").unwrap();
    let spool = open(&folder);
    assert!(spool.is_empty());
    assert!(stranger.exists());
}
