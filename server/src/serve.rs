//! The server as a whole: gRPC, health, figures and pages on one port.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use proto::v1::agents_server::AgentsServer;
use proto::v1::bugs_server::BugsServer;
use sources::debuginfod::NoAddress;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

use crate::access::Pattern;
use crate::access::listener::{ListenError, Listener};
use crate::clock::now;
use crate::config::Config;
use crate::desk::Room;
use crate::metrics::Metrics;
use crate::service::House;
use crate::service::agents::AgentsService;
use crate::service::bugs::BugsService;
use crate::source_places::SourcePlaces;
use crate::store::model::{Quotas, Retention, Retired};
use crate::store::objects::place::OpenError;
use crate::store::{self, StoreError};
use crate::web;

/// How often what is too old, or too much, is forgotten.
const BETWEEN_RETIREMENTS: Duration = Duration::from_secs(600);
/// Seconds for which an object that nothing refers to may be one that somebody is about to refer to: sending one to a bucket takes a
/// while. Who takes longer stores it again.
const MEANT: u64 = 6 * 60 * 60;
/// Seconds.
const DAY: u64 = 24 * 60 * 60;

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Modules and traces have no place.
    #[error(transparent)]
    Objects(#[from] OpenError),
    /// Nobody can be let in, or the port cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Sources cannot be asked for.
    #[error(transparent)]
    Sources(#[from] NoAddress),
    /// It ended by itself.
    #[error("the server ended: {0}")]
    Ended(String),
}

/// A server that listens.
pub struct Running {
    /// Where.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Running {
    /// Waits until it has ended.
    ///
    /// # Errors
    /// When it ended by itself.
    pub async fn ended(self) -> Result<(), ServeError> {
        self.task
            .await
            .map_err(|error| ServeError::Ended(error.to_string()))
    }
}

/// Starts a server; it drains and ends when `until` does.
///
/// # Errors
/// When the store, the certificates or the port cannot be used.
pub async fn start(
    config: Config,
    until: impl Future<Output = ()> + Send + 'static,
) -> Result<Running, ServeError> {
    let store = store::open_within(&config.store, Quotas::from(&config.limits)).await?;
    let objects = config.objects.open(&config.s3).await?;
    let (drain, draining) = watch::channel(false);
    let house = House {
        room: Arc::new(Room::new(
            Arc::clone(&store),
            Arc::clone(&objects),
            Handle::current(),
        )),
        store,
        objects,
        limits: Arc::new(config.limits.clone()),
        secure: config.tls.is_some(),
        sources: Arc::new(SourcePlaces::new(&config.sources)?),
        known: Arc::default(),
        claims: Arc::default(),
        uploads: Arc::default(),
        watchers: Arc::default(),
        metrics: Arc::new(Metrics::default()),
        draining,
    };
    let listener = Listener::bind(&config).await?;
    let address = listener.address();
    let router = router(&house);
    let behind = house.clone();
    tokio::spawn(async move {
        if let Err(status) = behind.catch_up().await {
            tracing::warn!(status = status.message(), "logs wait to be looked at");
        }
    });
    let forgetting = tokio::spawn(forget(house, config));
    let task = tokio::spawn(async move {
        let draining = async {
            until.await;
            tracing::info!("draining");
            drain.send_replace(true);
        };
        listener.serve(router, draining).await;
        forgetting.abort();
    });
    tracing::info!(%address, "listening");
    Ok(Running { address, task })
}

/// Has hosts be whose they are that speak for them next, whether or not servers are at work; `*` in a name stands for any characters.
/// Gives those that were somebody's.
///
/// # Errors
/// When the store cannot be used.
pub async fn release(config: &Config, names: &[String]) -> Result<Vec<String>, ServeError> {
    let store = store::open(&config.store).await?;
    let patterns: Vec<Pattern> = names.iter().map(|name| Pattern::new(name)).collect();
    let mut released = Vec::new();
    for host in store.hosts().await? {
        let is_meant = patterns.iter().any(|pattern| pattern.fits(&host.id));
        if is_meant && store.release(&host.id).await? {
            released.push(host.id);
        }
    }
    Ok(released)
}

/// Everything that can be asked for on the port.
fn router(house: &House) -> Router {
    let (health, serving) = tonic_health::server::health_reporter();
    let agents = AgentsServer::new(AgentsService(house.clone()))
        .max_decoding_message_size(house.limits.message_bytes)
        .accept_compressed(CompressionEncoding::Gzip);
    let bugs = BugsServer::new(BugsService(house.clone())).send_compressed(CompressionEncoding::Gzip);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1();
    let watched = house.clone();
    tokio::spawn(async move { tell_health(health, watched).await });
    let mut routes = Routes::new(agents).add_service(bugs).add_service(serving);
    match reflection {
        Ok(reflection) => routes = routes.add_service(reflection),
        // The descriptors are ours and were compiled with us.
        Err(error) => tracing::warn!(%error, "no reflection"),
    }
    let metrics = Arc::clone(&house.metrics);
    routes
        .into_axum_router()
        .route("/metrics", get(move || async move { metrics.text() }))
        .route("/healthz", get(|| async { "ok\n" }))
        .merge(web::routes(house.clone()))
        .fallback(web::missing)
}

/// Says whether the store answers, to whoever asks for the server's health.
async fn tell_health(health: tonic_health::server::HealthReporter, house: House) {
    loop {
        if house.store.ping().await.is_ok() {
            health.set_serving::<AgentsServer<AgentsService>>().await;
            health.set_serving::<BugsServer<BugsService>>().await;
        } else {
            health.set_not_serving::<AgentsServer<AgentsService>>().await;
            health.set_not_serving::<BugsServer<BugsService>>().await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn forget(house: House, config: Config) {
    loop {
        tokio::time::sleep(BETWEEN_RETIREMENTS).await;
        let retention = Retention {
            runs_of_a_case: config.retention.runs,
            seconds: u64::from(config.retention.bug_days) * DAY,
        };
        let now = now();
        match house.store.retire(retention, now).await {
            Ok(Retired { runs, bugs, modules }) => tracing::info!(runs, bugs, modules, "forgotten"),
            Err(error) => tracing::warn!(%error, "nothing was forgotten"),
        }
        let removed = house
            .store
            .remove_objects(&*house.objects, now.saturating_sub(MEANT))
            .await;
        match removed {
            Ok(objects) => tracing::info!(objects, "removed"),
            Err(error) => tracing::warn!(%error, "objects stay that nothing refers to"),
        }
    }
}
