//! Who may read does not keep the server looking for everybody.

use std::time::Duration;

use proto::v1::SteerRequest;
use proto::v1::bugs_client::BugsClient;
use proto::v1::steer_request::{What, Widen};
use server::store;
use server::store::model::{BugId, Case, FailureSeen, NewCase};
use tonic::Code;

use crate::place::{Agent, PROGRAM, Place, Server};

/// Follows the list of bugs as a page does; gives the connection, or why not.
fn follow(server: &Server, who: &Agent) -> Result<ureq::Body, (u16, String)> {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let asked = config.build().new_agent().get(format!("{}/live", server.url()));
    let bearer = format!("Bearer {}", who.secret.text());
    let answer = asked.header("authorization", bearer).call().unwrap();
    let (status, mut body) = (answer.status().as_u16(), answer.into_body());
    match status {
        200 => Ok(body),
        status => Err((status, body.read_to_string().unwrap())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_credential_follows_so_many_streams() {
    let mut place = Place::sqlite();
    place.limits.watchers = 2;
    let (greedy, honest) = (Agent::new("greedy"), Agent::new("honest"));
    let server = place.server(&[&greedy, &honest]).await;
    let (first, _second) = (
        follow(&server, &greedy).unwrap(),
        follow(&server, &greedy).unwrap(),
    );
    let (status, why) = follow(&server, &greedy).unwrap_err();
    assert_eq!(status, 429, "{why}");
    assert!(why.contains("limits.watchers"), "{why}");
    follow(&server, &honest).unwrap();
    // Who goes makes room, as soon as that is noticed.
    drop(first);
    for _ in 0..600 {
        if follow(&server, &greedy).is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody noticed that one has gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bug_is_widened_so_often() {
    let place = Place::sqlite();
    let reader = Agent::new("reader");
    let server = place.server(&[&reader]).await;
    let case = Case {
        bug: BugId("b".to_owned()),
        build: program::BuildId(vec![1; 20]),
    };
    let new = NewCase {
        case: case.clone(),
        program: PROGRAM.to_owned(),
        signature: "SIGSEGV take:82".to_owned(),
        modules: "[]".into(),
        report: "{}".into(),
        runs: 1,
        seen: FailureSeen {
            counted_for: None,
            id: "f".to_owned(),
            host: "h".to_owned(),
            at: 1000,
        },
    };
    let store = store::open(&place.config(&[]).store).await.unwrap();
    store.open(new).await.unwrap();
    let mut bugs = BugsClient::new(server.channel().await);
    let mut told = None;
    for _ in 0..100 {
        let widen = SteerRequest {
            bug: "b".to_owned(),
            what: Some(What::Widen(Widen {})),
        };
        if let Err(status) = bugs.steer(reader.request(widen)).await {
            told = Some(status);
            break;
        }
    }
    assert_eq!(told.map(|status| status.code()), Some(Code::FailedPrecondition));
    assert_eq!(
        store.audit(100).await.unwrap().len(),
        24,
        "what was not done is not told of"
    );
}
