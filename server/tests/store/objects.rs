//! Objects between being stored and being referred to, and what forgets them meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diagnosis::tracking::ModuleName;
use failsketch_tests::folder::Folder;
use server::access::Programs;
use server::store::model::{ModuleRow, NewCase, NewRun, Retention};
use server::store::objects::folder::FolderObjects;
use server::store::objects::{ObjectError, Objects, Staged, Whole};
use server::store::{Body, StoreError};
use tokio::sync::{Notify, Semaphore};

use crate::place::{
    Place, build, case, entries, kept, new_case, objects, on_both, opened, run, runs, somebody, uploaded,
};

on_both!(
    what_somebody_is_about_to_refer_to_stays,
    who_refers_to_what_is_gone_is_told_to_store_it_again,
    what_comes_again_while_it_is_removed_is_stored_again,
    one_object_that_cannot_be_removed_keeps_its_place,
    a_case_is_not_opened_with_files_that_were_forgotten,
    files_and_cases_that_race_end_up_together,
    objects_of_an_older_store_are_known,
);

fn module(number: u8, object: &str, seen: u64) -> ModuleRow {
    ModuleRow {
        build: build(number),
        programs: Programs::new(&["*".to_owned()]),
        path: "/usr/lib/libc.so.6".to_owned(),
        bytes: 1,
        object: object.to_owned(),
        seen,
    }
}

fn large(id: &str, key: &str, at: u64) -> NewRun {
    NewRun {
        body: Body::Object(key.to_owned()),
        at,
        ..run(id)
    }
}

fn is_unavailable<T: std::fmt::Debug>(told: &Result<T, StoreError>) -> bool {
    matches!(told, Err(StoreError::Unavailable(_)))
}

async fn what_somebody_is_about_to_refer_to_stays(place: &Place) {
    let (store, folder) = (place.open().await, Folder::new("objects"));
    let objects = objects(&folder).await;
    let case = opened(&*store, "b").await;
    let remove = async |before| store.remove_objects(&objects, before).await.expect("done");
    let of_run = kept(&*store, &objects, "of a run", 1000).await;
    let of_file = kept(&*store, &objects, "of a file", 1000).await;
    let of_nothing = kept(&*store, &objects, "of nothing", 1000).await;
    assert_eq!(remove(1000).await, 0, "somebody may be about to");
    // A content that comes again is meant again.
    assert_eq!(kept(&*store, &objects, "of nothing", 1500).await, of_nothing);
    assert_eq!(kept(&*store, &objects, "of nothing", 1200).await, of_nothing);
    store
        .append(&case, vec![large("1", &of_run, 1001)])
        .await
        .expect("stored");
    store
        .module(module(2, &of_file, 1001), &somebody())
        .await
        .expect("noted");
    assert_eq!(remove(1500).await, 0);
    assert_eq!(remove(9999).await, 1);
    for (key, is_there) in [(&of_run, true), (&of_file, true), (&of_nothing, false)] {
        assert_eq!(objects.exists(key).await.expect("asked"), is_there);
    }
    // A run that was there before brought its record along once more, which nothing refers to.
    let again = kept(&*store, &objects, "another record", 2000).await;
    store
        .append(&case, vec![large("1", &again, 2001)])
        .await
        .expect("known");
    assert_eq!(remove(3000).await, 1);
    assert!(!objects.exists(&again).await.expect("asked"));
    // And so it goes with all that refers to them.
    let keep = Retention {
        runs_of_a_case: 0,
        seconds: 100,
    };
    store.retire(keep, 3000).await.expect("done");
    assert_eq!(remove(3000).await, 2);
}

async fn who_refers_to_what_is_gone_is_told_to_store_it_again(place: &Place) {
    let (store, folder) = (place.open().await, Folder::new("objects"));
    let objects = objects(&folder).await;
    let (one, other) = (opened(&*store, "b").await, opened(&*store, "c").await);
    let key = kept(&*store, &objects, "late", 1000).await;
    assert_eq!(store.remove_objects(&objects, 2000).await.expect("done"), 1);
    let told = store.module(module(2, &key, 2000), &somebody()).await;
    assert!(is_unavailable(&told), "{told:?}");
    assert_eq!(store.modules(&[build(2)]).await.expect("read"), []);
    // Those who come together with it are not told so.
    let late = store.append(&one, vec![run("1"), large("2", &key, 2000)]);
    let others = [store.append(&one, runs(["3"])), store.append(&other, runs(["4"]))];
    let [first, second] = others;
    let (late, first, second) = tokio::join!(late, first, second);
    assert!(is_unavailable(&late), "{late:?}");
    first.expect("stored");
    second.expect("stored");
    assert_eq!(entries(&*store, &one).await, [(1, "3".to_owned())]);
    kept(&*store, &objects, "late", 2000).await;
    let told = store.append(&one, vec![run("1"), large("2", &key, 2000)]).await;
    told.expect("stored");
    store
        .module(module(2, &key, 2000), &somebody())
        .await
        .expect("noted");
    assert_eq!(store.remove_objects(&objects, 9999).await.expect("done"), 0);
    assert!(objects.exists(&key).await.expect("asked"));
}

/// What a server that does not wait needs to go wrong.
const MEANWHILE: Duration = Duration::from_millis(500);

/// A folder, from which nothing is removed before somebody lets it.
struct Hesitant {
    folder: FolderObjects,
    asked: Notify,
    let_go: Semaphore,
}

#[tonic::async_trait]
impl Objects for Hesitant {
    async fn stage(&self, most: u64) -> Result<Staged, ObjectError> {
        self.folder.stage(most).await
    }

    async fn keep(&self, whole: Whole) -> Result<(), ObjectError> {
        self.folder.keep(whole).await
    }

    async fn get(&self, key: &str) -> Result<PathBuf, ObjectError> {
        self.folder.get(key).await
    }

    async fn exists(&self, key: &str) -> Result<bool, ObjectError> {
        self.folder.exists(key).await
    }

    async fn remove(&self, key: &str) -> Result<(), ObjectError> {
        self.asked.notify_one();
        let let_go = self.let_go.acquire().await;
        let_go.expect("it is open").forget();
        self.folder.remove(key).await
    }
}

/// One server has found that nothing refers to an object and is about to remove it, when another one gets the same content.
async fn what_comes_again_while_it_is_removed_is_stored_again(place: &Place) {
    let (here, there, folder) = (place.open().await, place.open().await, Folder::new("objects"));
    let objects = Arc::new(Hesitant {
        folder: objects(&folder).await,
        asked: Notify::new(),
        let_go: Semaphore::new(0),
    });
    let key = kept(&*here, &*objects, "again", 1000).await;
    let removing = {
        let objects = Arc::clone(&objects);
        tokio::spawn(async move { here.remove_objects(&*objects, 2000).await })
    };
    objects.asked.notified().await;
    let mut storing = {
        let objects = Arc::clone(&objects);
        tokio::spawn(async move {
            let key = kept(&*there, &*objects, "again", 2000).await;
            there
                .module(module(2, &key, 2000), &somebody())
                .await
                .expect("noted");
        })
    };
    // It has to wait. However far it comes meanwhile, it must come out the same.
    let early = tokio::time::timeout(MEANWHILE, &mut storing).await;
    objects.let_go.add_permits(1);
    assert_eq!(removing.await.expect("it ends well").expect("done"), 1);
    match early {
        Ok(stored) => stored.expect("it ends well"),
        Err(_) => storing.await.expect("it ends well"),
    }
    assert!(
        objects.exists(&key).await.expect("asked"),
        "a module without its file"
    );
}

async fn one_object_that_cannot_be_removed_keeps_its_place(place: &Place) {
    let (store, folder) = (place.open().await, Folder::new("objects"));
    let objects = objects(&folder).await;
    let key = kept(&*store, &objects, "stuck", 1000).await;
    // A folder in the place of the file cannot be removed as one.
    let path = objects.get(&key).await.expect("it is there");
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    let told = store.remove_objects(&objects, 2000).await;
    assert!(is_unavailable(&told), "{told:?}");
    std::fs::remove_dir(&path).expect("removed");
    assert_eq!(store.remove_objects(&objects, 2000).await.expect("done"), 1);
}

fn about(number: u8, bug: &str, at: u64) -> NewCase {
    let needed = ModuleName {
        path: "/usr/lib/libc.so.6".to_owned(),
        build_id: Some(build(number)),
    };
    NewCase {
        modules: serde_json::to_vec(&[needed]).expect("JSON").into(),
        ..new_case(&case(bug), at)
    }
}

async fn a_case_is_not_opened_with_files_that_were_forgotten(place: &Place) {
    let store = place.open().await;
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100,
    };
    uploaded(&*store, &module(2, &"ab".repeat(32), 1000)).await;
    // The reporter was answered that nothing is lacking, and then took its time.
    let known = store.modules_seen(&[build(2)], 1500).await.expect("read");
    assert_eq!(known.len(), 1);
    assert_eq!(store.retire(keep, 1590).await.expect("done").modules, 0);
    assert_eq!(store.retire(keep, 1700).await.expect("done").modules, 1);
    let told = store.open(about(2, "b", 1701)).await;
    assert!(is_unavailable(&told), "{told:?}");
    assert_eq!(store.bug(&case("b").bug).await.expect("read"), None);
    // Nor with one that only those have uploaded whom this program does not believe.
    let foreign = ModuleRow {
        programs: Programs::new(&["other".to_owned()]),
        ..module(2, &"cd".repeat(32), 1710)
    };
    uploaded(&*store, &foreign).await;
    assert!(is_unavailable(&store.open(about(2, "b", 1711)).await));
    uploaded(&*store, &module(2, &"ab".repeat(32), 1720)).await;
    assert!(store.open(about(2, "b", 1721)).await.expect("opened"));
    // From there on it is the case that keeps them, whenever they were seen.
    let long = Retention {
        runs_of_a_case: 1,
        seconds: 0,
    };
    store
        .failed(&case("b"), crate::place::seen("f", 9000))
        .await
        .expect("counted");
    assert_eq!(store.retire(long, 9000).await.expect("done").modules, 0);
    let left = store.modules(&[build(2)]).await.expect("read");
    assert!(left.iter().any(|row| row.object == "ab".repeat(32)));
}

async fn files_and_cases_that_race_end_up_together(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100,
    };

    for number in 1..=30 {
        uploaded(&*here, &module(number, &"ab".repeat(32), 1000)).await;
        // Later than anything was seen that is there: the module is old, and the case is not.
        let (store, bug) = (there.clone(), format!("b{number}"));
        let opening = tokio::spawn(async move { store.open(about(number, &bug, 2000)).await });
        if number % 3 == 0 {
            tokio::task::yield_now().await;
        }
        let retired = here.retire(keep, 2000).await.expect("done");
        let told = opening.await.expect("it ends well");
        let left = here.modules(&[build(number)]).await.expect("read");
        match told {
            Ok(_) => {
                assert_eq!((left.len(), retired.modules), (1, 0), "a case without its file");
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                assert_eq!((left.len(), retired.modules), (0, 1));
            }
        }
    }
}

async fn objects_of_an_older_store_are_known(place: &Place) {
    let (store, folder) = (place.open().await, Folder::new("objects"));
    let objects = objects(&folder).await;
    let case = opened(&*store, "b").await;
    let key = kept(&*store, &objects, "old", 1000).await;
    store
        .append(&case, vec![large("1", &key, 1000)])
        .await
        .expect("stored");
    let file = kept(&*store, &objects, "old file", 1000).await;
    store
        .module(module(2, &file, 1000), &somebody())
        .await
        .expect("noted");
    // As a server left it that did not note them.
    place
        .change(&[
            "DROP TABLE objects",
            "DROP TABLE holdings",
            "DROP INDEX hosts_of_owner",
            "ALTER TABLE openings DROP COLUMN owner",
            "ALTER TABLE reporters DROP COLUMN owner",
            "ALTER TABLE openings DROP COLUMN counted",
            "ALTER TABLE modules DROP COLUMN owner",
            "DROP INDEX modules_by_object",
            "DELETE FROM migrations WHERE version > 5",
        ])
        .await;
    let store = place.open().await;
    assert_eq!(store.remove_objects(&objects, 9999).await.expect("done"), 0);
    store
        .append(&case, vec![large("2", &key, 1500)])
        .await
        .expect("the object is known");
    store
        .module(module(3, &file, 1500), &somebody())
        .await
        .expect("noted");
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100,
    };
    store.retire(keep, 5000).await.expect("done");
    assert_eq!(store.remove_objects(&objects, 5000).await.expect("done"), 2);
}
