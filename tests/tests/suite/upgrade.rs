//! A server that is upgraded in place: what it had it has, and what a newer one made it leaves alone.

use std::path::Path;
use std::process::Command;

use failsketch_tests::folder::Folder;
use failsketch_tests::{command, process};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::fleet::counted;
use crate::service::{LONGEST, Server, recorded, replay};

/// Changes a store as another version of the program would have it.
fn change(file: &Path, statements: &[&'static str]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(file);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        for statement in statements {
            sqlx::query(*statement).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    });
}

#[test]
fn a_store_of_the_first_version_is_brought_up_to_date_and_keeps_what_is_in_it() {
    let folder = Folder::new("upgrade");
    let kept = recorded(&folder);
    let file = folder.path().join("bugs.db");
    let mut server = Server::start(&folder, &format!("sqlite:{}", file.display()));
    let done = replay(&server.url(), &kept, "4", "20").finish();
    assert!(done.status.success(), "{}", done.stderr);
    let before = counted(&server.url(), 20);
    server.end();
    // As the first version left it.
    change(
        &file,
        &[
            "ALTER TABLE modules RENAME TO newer",
            "CREATE TABLE modules (build BLOB PRIMARY KEY, path TEXT NOT NULL, bytes BIGINT NOT NULL, object TEXT NOT NULL)",
            "INSERT INTO modules SELECT build, path, bytes, object FROM newer",
            "DROP TABLE newer",
            "DROP TABLE trend",
            "ALTER TABLE derived DROP COLUMN words",
            "ALTER TABLE derived DROP COLUMN course",
            "DROP INDEX audit_of_bug",
            "DROP TABLE objects",
            "DROP TABLE holdings",
            "DROP INDEX hosts_of_owner",
            "ALTER TABLE hosts DROP COLUMN owner",
            "ALTER TABLE openings DROP COLUMN owner",
            "ALTER TABLE reporters DROP COLUMN owner",
            "ALTER TABLE openings DROP COLUMN counted",
            "DELETE FROM migrations WHERE version > 1",
        ],
    );
    server.start_again();
    assert_eq!(counted(&server.url(), 20), before);
    // And it goes on from there.
    let done = replay(&server.url(), &kept, "4", "20").finish();
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stdout.contains("the server has 40"), "{}", done.stdout);
}

#[test]
fn a_store_of_a_newer_version_is_refused_in_a_line_and_not_touched() {
    let folder = Folder::new("upgrade");
    let file = folder.path().join("bugs.db");
    let store = format!("sqlite:{}", file.display());
    let mut server = Server::start(&folder, &store);
    server.end();
    change(
        &file,
        &["INSERT INTO migrations (version, name) VALUES (99, 'of tomorrow')"],
    );
    let before = std::fs::read(&file).unwrap();
    let mut serve = Command::new(command::binary());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--store", &store, "--objects"]);
    serve.arg(folder.path().join("objects"));
    let done = process::run(&mut serve, b"", LONGEST, |_| ());
    assert_eq!(done.status.code(), Some(1), "{}", done.how());
    let said: Vec<&str> = done.stderr.lines().collect();
    let wanted = "the store is of version 99, and this failsketch knows up to";
    assert!(said.len() == 1 && said[0].contains(wanted), "{}", done.stderr);
    assert!(said[0].contains("run the newer failsketch"), "{}", done.stderr);
    assert!(before == std::fs::read(&file).unwrap(), "the store was changed");
}
