//! Objects in a folder: whole or not at all, and never in memory.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use failsketch_tests::folder::Folder;
use server::store::objects::folder::FolderObjects;
use server::store::objects::{ObjectError, Objects as _};
use sha2::{Digest as _, Sha256};

/// Says to [`stores_until_killed`] where.
const OBJECTS: &str = "FAILSKETCH_TEST_OBJECTS";

async fn opened(folder: &Folder) -> FolderObjects {
    FolderObjects::open(folder.path()).await.expect("a folder opens")
}

/// All files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder can be read").flatten();
    let below = entries.flat_map(|entry| match entry.path().is_dir() {
        true => files(&entry.path()),
        false => vec![entry.path()],
    });
    below.collect()
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn an_object_has_the_name_of_its_content() {
    let folder = Folder::new("objects");
    let objects = opened(&folder).await;
    let mut staged = objects.stage(3).await.expect("staged");
    staged.write("a".into()).await.expect("written");
    staged.write("bc".into()).await.expect("written");
    let whole = staged.whole().await.expect("on disk");
    let key = whole.key().to_owned();
    objects.keep(whole).await.expect("kept");
    // FIPS 180-2, B.1.
    assert_eq!(
        key,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(objects.put("abc".into()).await.expect("put"), key);
    let path = objects.get(&key).await.expect("it is there");
    assert_eq!(fs::read(&path).expect("it can be read"), b"abc");
    assert_eq!(
        files(folder.path()),
        [path],
        "stored once, and nothing else is left"
    );
    let empty = objects.put(Bytes::new()).await.expect("put");
    assert_eq!(
        fs::read(objects.get(&empty).await.expect("there")).expect("read"),
        b""
    );

    let again = opened(&folder).await;
    assert!(again.exists(&key).await.expect("asked"));
    again.remove(&key).await.expect("removed");
    again.remove(&key).await.expect("removing twice is fine");
    assert!(!objects.exists(&key).await.expect("asked"));
    let gone = objects.get(&key).await;
    assert!(matches!(gone, Err(ObjectError::Missing(_))), "{gone:?}");
}

#[tokio::test]
async fn what_is_too_large_or_never_finished_leaves_nothing() {
    let folder = Folder::new("objects");
    let objects = opened(&folder).await;
    let mut staged = objects.stage(1000).await.expect("staged");
    staged
        .write(vec![1; 1000].into())
        .await
        .expect("that much may come");
    let more = staged.write("x".into()).await;
    assert!(
        matches!(more, Err(ObjectError::TooLarge { most: 1000 })),
        "{more:?}"
    );
    assert!(staged.write("y".into()).await.is_err());
    assert!(staged.whole().await.is_err(), "a part is not the object");
    let mut unfinished = objects.stage(1000).await.expect("staged");
    unfinished.write("half of".into()).await.expect("written");
    drop(unfinished);
    assert!(files(folder.path()).is_empty(), "{:?}", files(folder.path()));
}

#[tokio::test]
async fn keys_are_no_paths() {
    let folder = Folder::new("objects");
    folder.write("secret", "s");
    let objects = opened(&folder).await;
    let upper = digest(b"x").to_uppercase();
    let long = format!("../{}", "a".repeat(61));
    for key in ["", "a", "../secret", "ä", &upper, &long] {
        assert!(
            matches!(objects.get(key).await, Err(ObjectError::Missing(_))),
            "{key}"
        );
        assert!(
            matches!(objects.remove(key).await, Err(ObjectError::Missing(_))),
            "{key}"
        );
    }
}

#[tokio::test]
async fn leftovers_of_a_killed_server_go_when_they_are_old() {
    let folder = Folder::new("objects");
    drop(opened(&folder).await);
    let (old, young) = (
        folder.write("incoming/old", "x"),
        folder.write("incoming/young", "x"),
    );
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    let file = fs::File::options().write(true).open(&old).expect("opens");
    file.set_modified(long_ago).expect("its time can be set");
    opened(&folder).await;
    assert!(!old.exists());
    assert!(young.exists(), "another server may be writing it");
}

/// As a module of that size comes over the network.
#[tokio::test]
async fn a_large_object_does_not_sit_in_memory() {
    const PIECES: usize = 192;
    let folder = Folder::new("objects");
    let objects = opened(&folder).await;
    let before = most_memory();
    let mut staged = objects.stage(u64::MAX).await.expect("staged");
    for piece in 0..PIECES {
        let number = u8::try_from(piece % 256).expect("it is below 256");
        staged.write(vec![number; 1 << 20].into()).await.expect("written");
    }
    let whole = staged.whole().await.expect("on disk");
    let key = whole.key().to_owned();
    objects.keep(whole).await.expect("kept");
    let grown = most_memory() - before;
    assert!(grown < (PIECES << 20) / 3, "{grown} bytes more in memory");
    let path = objects.get(&key).await.expect("there");
    assert_eq!(path.metadata().expect("there").len(), (PIECES << 20) as u64);
}

/// The most memory that this process has had, in bytes.
fn most_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("it is told");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

/// Not a test but a program that one starts: tells each key once the object is stored.
#[tokio::test]
async fn stores_until_killed() {
    let Ok(folder) = std::env::var(OBJECTS) else {
        return;
    };
    let objects = FolderObjects::open(Path::new(&folder)).await.expect("it opens");
    for number in 0_u32.. {
        let content = format!("{}-{number} ", std::process::id()).repeat(40_000);
        let key = objects.put(content.into()).await.expect("put");
        writeln!(std::io::stdout().lock(), "key {key}").expect("somebody listens");
    }
}

#[tokio::test]
async fn a_killed_server_leaves_whole_objects_only() {
    let folder = Folder::new("objects");
    let mut keys = Vec::new();
    for round in 1..=6 {
        let mut child = Command::new(std::env::current_exe().expect("a test knows its path"))
            .args(["--exact", "stores_until_killed", "--nocapture"])
            .env(OBJECTS, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let key = |line: std::io::Result<String>| line.ok()?.strip_prefix("key ").map(str::to_owned);
        keys.extend(lines.by_ref().filter_map(key).take(round * 3));
        std::thread::sleep(Duration::from_micros(731 * round as u64));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        keys.extend(lines.filter_map(key));
    }
    let objects = opened(&folder).await;
    for key in &keys {
        assert!(
            objects.exists(key).await.expect("asked"),
            "{key} was acknowledged"
        );
    }
    let incoming = folder.path().join("incoming");
    for path in files(folder.path())
        .iter()
        .filter(|path| !path.starts_with(&incoming))
    {
        let content = fs::read(path).expect("it can be read");
        assert_eq!(
            path.file_name().and_then(|name| name.to_str()),
            Some(&digest(&content)[..])
        );
    }
}
