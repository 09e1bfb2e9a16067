//! What people hear of a bug, and who is said to have steered it.

use std::time::Duration;

use failsketch_tests::folder::Folder;
use proto::v1::bug::State;
use proto::v1::bugs_client::BugsClient;
use proto::v1::{Bug, GetBugRequest};
use tonic::transport::Channel;

use crate::service::{Server, failsketch, recorded, replay};

/// What comes of a stream until something is so.
async fn until(
    bugs: &mut tonic::Streaming<Bug>,
    is_so: impl Fn(&Bug) -> bool,
) -> Result<Option<Bug>, tonic::Status> {
    while let Some(bug) = bugs.message().await? {
        if is_so(&bug) {
            return Ok(Some(bug));
        }
    }
    Ok(None)
}

#[test]
fn whoever_watches_a_bug_hears_of_its_runs_and_of_those_who_steer_it() {
    let folder = Folder::new("people");
    let kept = recorded(&folder);
    let store = format!("sqlite:{}", folder.path().join("bugs.db").display());
    let mut server = Server::start(&folder, &store);
    let url = server.url();
    let done = replay(&url, &kept, "2", "4").finish();
    assert!(done.status.success(), "{}", done.stderr);
    let bug = done.stdout.split([' ', ':']).nth(1).unwrap().to_owned();
    let nobody = failsketch(&["bugs", "--server", &url, "--audit"]);
    assert!(nobody.stdout.contains("nobody has steered"), "{}", nobody.stdout);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut watched = runtime.block_on(async {
        let channel = Channel::from_shared(url.clone())
            .unwrap()
            .connect()
            .await
            .unwrap();
        let request = GetBugRequest { bug: bug.clone() };
        let watched = BugsClient::new(channel).watch_bug(request).await.unwrap();
        let mut watched = watched.into_inner();
        let now = watched.message().await.unwrap().unwrap();
        assert_eq!((now.id.as_str(), now.runs), (bug.as_str(), 4));
        watched
    });
    let done = replay(&url, &kept, "2", "6").finish();
    assert!(done.status.success(), "{}", done.stderr);
    // Seen, and taken in.
    let more = runtime.block_on(until(&mut watched, |bug| bug.runs == 10 && bug.revision == 10));
    assert!(more.unwrap().is_some());
    let steered = failsketch(&["steer", "--server", &url, &bug, "--stop"]);
    assert!(steered.status.success(), "{}", steered.stderr);
    let stopped = runtime.block_on(until(&mut watched, |bug| bug.state() == State::Stopped));
    assert!(stopped.unwrap().is_some());
    failsketch(&["steer", "--server", &url, &bug, "--resume"]);
    let audit = failsketch(&["bugs", "--server", &url, "--audit"]).stdout;
    let lines: Vec<&str> = audit.lines().collect();
    assert!(
        lines[0].contains("resumed by local") && lines[1].contains("stopped by local"),
        "{audit}"
    );
    let other = failsketch(&["bugs", "--server", &url, "--audit", "--program", "other"]).stdout;
    assert!(other.contains("nobody has steered"), "{other}");
    // A server that is stopped lets everybody go.
    server.end();
    let end = runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), until(&mut watched, |_| false)).await
    });
    assert!(end.is_ok(), "the stream stays open");
}
