//! Whose a host is, whoever asks first and wherever.

use std::collections::BTreeSet;
use std::sync::Arc;

use server::store::model::{BugId, Case, HostRow, NewCase, NewRun, Owner, Quotas, Retention, Standing};
use server::store::{Store, StoreError};
use sqlx::{AnyConnection, Connection as _};

use crate::place::{Place, build, log, new_case, on_both, opened, run};

on_both!(
    a_host_stays_whose_it_was_first,
    of_two_servers_that_are_told_at_once_one_gives_the_host,
    a_host_that_was_released_or_forgotten_is_the_next_ones,
    hosts_of_an_older_store_are_whose_they_are_first,
    an_owner_has_so_many_hosts_and_no_more,
    hosts_of_an_owner_report_so_many_bugs_and_no_more,
    what_a_bug_was_opened_with_counts_until_it_is_forgotten,
    a_log_says_whose_a_host_was_when_it_first_reported,
);

fn owner(name: &str) -> Owner {
    Owner(format!("token {name}"))
}

fn host(id: &str, seen: u64, registration: &'static str) -> HostRow {
    HostRow {
        id: id.to_owned(),
        registration: registration.into(),
        seen,
    }
}

async fn a_host_stays_whose_it_was_first(place: &Place) {
    let store = place.open().await;
    let (one, other) = (owner("one"), owner("other"));
    let said = store.host(host("h", 10, "own"), &one).await.expect("noted");
    assert_eq!(said, Standing::Own);
    // However late or early it claims to be.
    for seen in [5, 10, 20] {
        let said = store.host(host("h", seen, "taken"), &other).await.expect("asked");
        assert_eq!(said, Standing::Taken);
    }
    assert_eq!(
        store.claim("h", &other, 30).await.expect("asked"),
        Standing::Taken
    );
    assert_eq!(store.hosts().await.expect("read"), [host("h", 10, "own")]);
    // Its owner goes on, also with what was long on its way.
    for (seen, standing) in [(20, "newer"), (15, "late")] {
        let said = store.host(host("h", seen, standing), &one).await.expect("noted");
        assert_eq!(said, Standing::Own);
    }
    assert_eq!(store.claim("h", &one, 30).await.expect("asked"), Standing::Own);
    assert_eq!(store.hosts().await.expect("read"), [host("h", 20, "newer")]);
    // Who reports before it has said that it is there has spoken for its host as well.
    assert_eq!(store.claim("i", &other, 30).await.expect("asked"), Standing::Own);
    let said = store.host(host("i", 40, "taken"), &one).await.expect("asked");
    assert_eq!(said, Standing::Taken);
    let said = store.host(host("i", 20, "early"), &other).await.expect("noted");
    assert_eq!(said, Standing::Own);
}

async fn of_two_servers_that_are_told_at_once_one_gives_the_host(place: &Place) {
    let servers = [place.open().await, place.open().await];
    for round in 0..20 {
        let id = format!("h{round}");
        let asked = (0..8_usize).map(|number| {
            let (store, id) = (servers[number % 2].clone(), id.clone());
            tokio::spawn(async move {
                let who = owner(&number.to_string());
                let said = match number / 2 % 2 {
                    0 => store.host(host(&id, 10, "said"), &who).await,
                    _ => store.claim(&id, &who, 10).await,
                };
                (number, said.expect("asked"))
            })
        });
        let mut given = BTreeSet::new();
        for asked in asked.collect::<Vec<_>>() {
            let (number, said) = asked.await.expect("it ends well");
            if said == Standing::Own {
                given.insert(number);
            }
        }
        assert_eq!(given.len(), 1, "{id} was given to {given:?}");
        for number in 0..8 {
            let said = servers[0].claim(&id, &owner(&number.to_string()), 20).await;
            assert_eq!(said.expect("asked") == Standing::Own, given.contains(&number));
        }
    }
}

async fn a_host_that_was_released_or_forgotten_is_the_next_ones(place: &Place) {
    let store = place.open().await;
    let (one, other) = (owner("one"), owner("other"));
    store.host(host("h", 10, "said"), &one).await.expect("noted");
    assert!(!store.release("none").await.expect("asked"));
    assert!(store.release("h").await.expect("released"));
    assert!(!store.release("h").await.expect("asked"), "it is nobody's");
    assert_eq!(store.hosts().await.expect("read"), [host("h", 10, "said")]);
    assert_eq!(store.claim("h", &other, 20).await.expect("asked"), Standing::Own);
    assert_eq!(store.claim("h", &one, 20).await.expect("asked"), Standing::Taken);
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100,
    };
    store.retire(keep, 200).await.expect("done");
    assert_eq!(store.claim("h", &one, 200).await.expect("asked"), Standing::Own);
}

async fn hosts_of_an_older_store_are_whose_they_are_first(place: &Place) {
    let store = place.open().await;
    let mut connection = AnyConnection::connect(&place.url()).await.expect("connects");
    // As a server left it that did not note owners.
    sqlx::query("INSERT INTO hosts (id, registration, seen) VALUES ('h', $1, 10)")
        .bind(&b"said"[..])
        .execute(&mut connection)
        .await
        .expect("written");
    let said = store.host(host("h", 5, "late"), &owner("one")).await;
    assert_eq!(said.expect("noted"), Standing::Own);
    assert_eq!(
        store.claim("h", &owner("other"), 20).await.expect("asked"),
        Standing::Taken
    );
    assert_eq!(store.hosts().await.expect("read"), [host("h", 10, "said")]);
}

/// The store, as a server opens it that lets nobody have much.
async fn narrow(place: &Place, quotas: Quotas) -> Arc<dyn Store> {
    server::store::open_within(&place.url(), quotas)
        .await
        .expect("the store opens")
}

async fn an_owner_has_so_many_hosts_and_no_more(place: &Place) {
    let few = Quotas {
        hosts: 3,
        ..Quotas::default()
    };
    let (store, beside) = (narrow(place, few).await, narrow(place, few).await);
    let (greedy, honest) = (owner("greedy"), owner("honest"));
    for id in ["g1", "g2", "g3"] {
        assert_eq!(store.claim(id, &greedy, 10).await.expect("asked"), Standing::Own);
    }
    for store in [&store, &beside] {
        let said = store.host(host("g4", 10, "said"), &greedy).await;
        assert_eq!(said.expect("asked"), Standing::TooMany);
        assert_eq!(
            store.claim("g5", &greedy, 10).await.expect("asked"),
            Standing::TooMany
        );
        // Those that it has go on, and others are not concerned.
        let said = store.host(host("g3", 20, "said"), &greedy).await;
        assert_eq!(said.expect("asked"), Standing::Own);
        assert_eq!(store.claim("h", &honest, 10).await.expect("asked"), Standing::Own);
    }
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100,
    };
    store.retire(keep, 115).await.expect("done");
    for id in ["g4", "g5"] {
        assert_eq!(store.claim(id, &greedy, 115).await.expect("asked"), Standing::Own);
    }
    assert_eq!(
        store.claim("g6", &greedy, 115).await.expect("asked"),
        Standing::TooMany
    );
}

fn opening(bug: &str, number: u8, host: &str) -> NewCase {
    let case = Case {
        bug: BugId(bug.to_owned()),
        build: build(number),
    };
    let mut new = new_case(&case, 1000);
    host.clone_into(&mut new.seen.host);
    new
}

async fn hosts_of_an_owner_report_so_many_bugs_and_no_more(place: &Place) {
    let few = Quotas {
        bugs: 2,
        ..Quotas::default()
    };
    let store = narrow(place, few).await;
    for (host, of) in [("g1", "greedy"), ("g2", "greedy"), ("h", "honest")] {
        store.claim(host, &owner(of), 10).await.expect("claimed");
    }
    assert!(store.open(opening("b1", 1, "g1")).await.expect("opened"));
    assert!(store.open(opening("b2", 1, "g2")).await.expect("opened"));
    for host in ["g1", "g2"] {
        let told = store.open(opening("b3", 1, host)).await;
        let Err(error @ StoreError::TooManyBugs { most: 2, .. }) = told else {
            panic!("{host} opened one more: {told:?}")
        };
        assert!(error.to_string().contains("limits.bugs"), "{error}");
    }
    assert_eq!(store.bug(&BugId("b3".to_owned())).await.expect("read"), None);
    // What is known is reported on, other builds have bugs of their own, and others are not concerned.
    let mut again = opening("b1", 1, "g2");
    again.seen.id = "again".to_owned();
    assert!(!store.open(again).await.expect("counted"));
    assert!(store.open(opening("b1", 2, "g1")).await.expect("opened"));
    assert!(store.open(opening("b4", 1, "h")).await.expect("opened"));
}

async fn what_a_bug_was_opened_with_counts_until_it_is_forgotten(place: &Place) {
    let narrow_one = Quotas {
        bytes: 400_000,
        ..Quotas::default()
    };
    let store = narrow(place, narrow_one).await;
    let greedy = owner("greedy");
    store.claim("g", &greedy, 10).await.expect("claimed");
    let large = |bug: &str| NewCase {
        report: vec![b' '; 100_000].into(),
        ..opening(bug, 1, "g")
    };
    assert!(store.open(large("b1")).await.expect("opened"));
    let counted = store.holding(&greedy).await.expect("read");
    assert!((100_000..200_000).contains(&counted), "{counted}");
    let told = store.open(large("b2")).await;
    assert!(told.expect("opened"));
    let told = store.open(large("b3")).await;
    assert!(matches!(told, Err(StoreError::Full { .. })), "{told:?}");
    assert_eq!(store.holding(&greedy).await.expect("read"), 2 * counted);
    let keep = Retention {
        runs_of_a_case: 1,
        seconds: 100,
    };
    assert_eq!(store.retire(keep, 2000).await.expect("done").bugs, 2);
    assert_eq!(store.holding(&greedy).await.expect("read"), 0);
    store.claim("g", &greedy, 2000).await.expect("claimed");
    assert!(store.open(large("b3")).await.expect("opened"));
}

async fn a_log_says_whose_a_host_was_when_it_first_reported(place: &Place) {
    let store = place.open().await;
    let case = opened(&*store, "b").await;
    store.claim("g", &owner("one"), 10).await.expect("claimed");
    let of = |id: &str, host: &str| NewRun {
        host: host.to_owned(),
        ..run(id)
    };
    store
        .append(&case, vec![of("1", "g"), of("2", "nobody's")])
        .await
        .expect("stored");
    // Whoever it is given to, the log stays what it is.
    assert!(store.release("g").await.expect("released"));
    store.claim("g", &owner("other"), 20).await.expect("claimed");
    store.append(&case, vec![of("3", "g")]).await.expect("stored");
    let log = log(&*place.open().await, &case).await;
    let owners: Vec<_> = log.into_iter().map(|run| run.owner).collect();
    assert_eq!(owners, [Some(owner("one")), None, Some(owner("one"))]);
}
