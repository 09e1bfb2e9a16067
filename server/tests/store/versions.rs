//! Stores that are opened by several, by others, or are none.

use failsketch_tests::folder::Folder;
use server::store::StoreError;
use sqlx::{AnyConnection, Connection as _};

use crate::place::{Place, on_both, opened, runs};

on_both!(
    a_newer_store_is_refused_and_left_alone,
    servers_may_start_together,
    a_store_is_opened_again,
);

async fn a_newer_store_is_refused_and_left_alone(place: &Place) {
    let case = opened(&*place.open().await, "b").await;
    let mut connection = AnyConnection::connect(&place.url()).await.expect("connects");
    sqlx::raw_sql("INSERT INTO migrations (version, name) VALUES (99, 'from the future')")
        .execute(&mut connection)
        .await
        .expect("changed");
    let Err(error) = server::store::open(&place.url()).await else {
        panic!("a newer store was opened")
    };
    assert!(
        matches!(error, StoreError::Newer { found: 99, known } if known < 99),
        "{error}"
    );
    assert!(error.to_string().contains("99"), "{error}");
    sqlx::raw_sql("DELETE FROM migrations WHERE version = 99")
        .execute(&mut connection)
        .await
        .expect("changed back");
    assert!(place.open().await.case(&case).await.expect("read").is_some());
}

async fn servers_may_start_together(place: &Place) {
    let url = place.url();
    let starting: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { server::store::open(&url).await.map(drop) })
        })
        .collect();
    for server in starting {
        server.await.expect("it ends well").expect("the store opens");
    }
    opened(&*place.open().await, "b").await;
}

async fn a_store_is_opened_again(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    store.append(&case, runs(["a"])).await.expect("stored");
    let before = store.case(&case).await.expect("read");
    drop(store);
    let again = place.open().await;
    assert_eq!(again.case(&case).await.expect("read"), before);
}

#[tokio::test]
async fn a_path_may_have_any_characters() {
    let folder = Folder::new("store");
    let path = folder.path().join("100% of it? #1 ä.db");
    drop(
        server::store::open(path.to_str().expect("it is text"))
            .await
            .expect("it opens"),
    );
    assert!(path.exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("it is there").permissions());
    assert_eq!(mode & 0o077, 0, "nobody else reads it");
}

#[tokio::test]
async fn what_is_no_store_is_told() {
    let folder = Folder::new("store");
    let text = folder.write(
        "text",
        "It was a dark and stormy night; the rain fell in torrents. ".repeat(99),
    );
    let told = async |url: &str| match server::store::open(url).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    };
    let error = told(text.to_str().expect("it is text")).await;
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    let error = told(&folder.path().join("no/such/folder").display().to_string()).await;
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("no/such/folder")),
        "{error}"
    );
    // Nobody listens at this port.
    let error = told("postgres://postgres@127.0.0.1:1/postgres").await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let error = told("sqlite::memory:").await;
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
}
