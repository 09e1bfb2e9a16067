//! Nobody speaks for a host of somebody else's.

use proto::v1::{Module, ModuleChunk, RegisterRequest, ReportFailureRequest, ReportRunsRequest};
use server::serve;
use tonic::Code;

use crate::place::{Agent, Place, Server, report};

/// What each way of speaking for a host is answered.
async fn spoken(server: &Server, who: &Agent, host: &str) -> [Code; 3] {
    let code = |told: Result<(), tonic::Status>| told.map_or_else(|status| status.code(), |()| Code::Ok);
    let failure = ReportFailureRequest {
        host: host.to_owned(),
        id: "f".to_owned(),
        program: Some(crate::place::program()),
        modules: vec![Module {
            path: "/compress".to_owned(),
            build_id: vec![1; 20].into(),
            executable: true,
            ..Default::default()
        }],
        report: report(),
        ..Default::default()
    };
    let runs = ReportRunsRequest {
        host: host.to_owned(),
        ..Default::default()
    };
    let mut agents = server.agents().await;
    let failed = agents.report_failure(who.request(failure)).await.map(drop);
    let ran = agents.report_runs(who.request(runs)).await.map(drop);
    [code(who.register(server, host).await), code(failed), code(ran)]
}

async fn a_host_is_of_the_credential_that_spoke_for_it_first(place: &Place) {
    let (owner, rival) = (Agent::new("owner"), Agent::new("rival"));
    let servers = [
        place.server(&[&owner, &rival]).await,
        place.server(&[&owner, &rival]).await,
    ];
    owner.register(&servers[0], "web-7").await.unwrap();
    for server in &servers {
        assert_eq!(spoken(server, &rival, "web-7").await, [Code::PermissionDenied; 3]);
        assert_eq!(server.figure(&rival, "hosts_refused_total "), 3);
        assert_eq!(spoken(server, &owner, "web-7").await, [Code::Ok; 3]);
        assert_eq!(spoken(server, &rival, "web-8").await, [Code::Ok; 3]);
    }
    let told = rival.register(&servers[0], "web-7").await.unwrap_err();
    assert!(told.message().contains("--release-host web-7"), "{told}");

    // A token that was renewed is the same one's.
    let renewed = Agent::new("owner");
    let server = place.server(&[&renewed, &rival]).await;
    assert_eq!(spoken(&server, &renewed, "web-7").await, [Code::Ok; 3]);
    assert_eq!(
        spoken(&server, &rival, "web-7").await,
        [Code::PermissionDenied; 3]
    );
    // One with another name is another one's, until an operator says otherwise.
    let config = place.config(&[&owner]);
    let released = serve::release(&config, &["web-*7".to_owned(), "none".to_owned()]).await;
    assert_eq!(released.unwrap(), ["web-7"]);
    assert_eq!(spoken(&server, &rival, "web-7").await, [Code::Ok; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_of_whoever_spoke_for_it_first_in_sqlite() {
    a_host_is_of_the_credential_that_spoke_for_it_first(&Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_of_whoever_spoke_for_it_first_in_postgres() {
    a_host_is_of_the_credential_that_spoke_for_it_first(&Place::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_credential_has_so_many_hosts_and_says_so_much_of_them() {
    let mut place = Place::sqlite();
    place.limits.hosts = 2;
    let (greedy, honest) = (Agent::new("greedy"), Agent::new("honest"));
    let server = place.server(&[&greedy, &honest]).await;
    greedy.register(&server, "g1").await.unwrap();
    greedy.register(&server, "g2").await.unwrap();
    assert_eq!(
        spoken(&server, &greedy, "g3").await,
        [Code::FailedPrecondition; 3]
    );
    let told = greedy.register(&server, "g3").await.unwrap_err();
    assert!(told.message().contains("limits.hosts"), "{told}");
    assert_eq!(server.figure(&honest, "hosts_refused_total "), 4);
    assert_eq!(spoken(&server, &honest, "h1").await, [Code::Ok; 3]);

    let said = |kernel: usize, programs: usize| RegisterRequest {
        host: "g1".to_owned(),
        kernel: "x".repeat(kernel),
        programs: vec![crate::place::program(); programs],
        ..RegisterRequest::default()
    };
    let mut agents = server.agents().await;
    let told = agents
        .register(greedy.request(said(100_000, 1)))
        .await
        .unwrap_err();
    assert_eq!(told.code(), Code::InvalidArgument, "{told}");
    // One that has run many builds is as good as others.
    agents.register(greedy.request(said(10, 10_000))).await.unwrap();
    let store = server::store::open(&place.config(&[]).store).await.unwrap();
    let noted = store.hosts_named(&["g1".to_owned()]).await.unwrap();
    assert!(
        noted[0].registration.len() < 10_000,
        "{}",
        noted[0].registration.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_files_are_names_and_not_long() {
    let place = Place::sqlite();
    let agent = Agent::new("agent");
    let server = place.server(&[&agent]).await;
    for path in ["/".repeat(5000), "/a\0b".to_owned(), "/\u{1b}[2J".to_owned()] {
        let module = Module {
            path,
            build_id: vec![1; 20].into(),
            executable: true,
            ..Module::default()
        };
        let failure = ReportFailureRequest {
            host: "h".to_owned(),
            id: "f".to_owned(),
            program: Some(crate::place::program()),
            modules: vec![module.clone()],
            report: report(),
            ..Default::default()
        };
        let mut agents = server.agents().await;
        let told = agents.report_failure(agent.request(failure)).await.unwrap_err();
        assert_eq!(told.code(), Code::InvalidArgument, "{told}");
        let piece = ModuleChunk {
            module: Some(module),
            data: "x".into(),
        };
        let told = agents
            .upload_module(agent.request(tokio_stream::once(piece)))
            .await;
        let told = told.unwrap_err();
        assert!(told.message().contains("control characters"), "{told}");
    }
}
