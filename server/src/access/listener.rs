//! Connections: whose, how many, and how they are made secure.
//!
//! gRPC and pages share one port. Everything that is served is behind the [`Gate`]: whoever writes a service cannot leave it out.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::{Access, Gate, NoHeader, Peer, TlsError, connection, tls};
use crate::config::{Config, ConfigError, Limits};
use crate::limits::Hosts;

/// How long requests may take that are being answered when the server is to end.
const DRAIN: Duration = Duration::from_secs(30);
/// How long to wait when there are no more files for connections.
const NO_FILES: Duration = Duration::from_millis(100);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The configuration does not go together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The proxy's header is none.
    #[error(transparent)]
    Header(#[from] NoHeader),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A port that is listened on.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    shared: Shared,
    gate: Gate,
    hosts: Arc<Hosts>,
}

#[derive(Clone)]
struct Shared {
    tls: Option<TlsAcceptor>,
    limits: Arc<Limits>,
    builder: Arc<Builder<TokioExecutor>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("tls", &self.tls.is_some())
            .field("limits", &self.limits)
            .finish()
    }
}

impl Listener {
    /// Listens as the configuration says.
    pub async fn bind(config: &Config) -> Result<Self, ListenError> {
        config.check()?;
        let access = Arc::new(Access::new(config)?);
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let address = config.listen;
        let failed = |source| ListenError::Listen { address, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let hosts = Arc::new(Hosts::new(&config.limits));
        Ok(Self {
            socket,
            address,
            shared: Shared {
                tls,
                limits: Arc::new(config.limits.clone()),
                builder: Arc::new(connection::builder(&config.limits)),
            },
            gate: Gate::new(access, Arc::clone(&hosts), (&config.limits).into()),
            hosts,
        })
    }

    /// Where it listens: the port that was found where none was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What requests take: for services that need more memory than the messages that they got.
    #[must_use]
    pub fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// Serves everybody, until `until` is there. Requests that are being answered then are answered.
    pub async fn serve(self, app: Router, until: impl Future<Output = ()>) {
        let app = app.layer(self.gate);
        let places = Places::new(&self.shared.limits);
        let (drain, draining) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut until = pin!(until);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = until.as_mut() => break,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(NO_FILES).await;
                    continue;
                }
            };
            let Some(place) = places.take(address.ip()) else {
                tracing::info!(%address, "too many connections: refused");
                continue;
            };
            let (shared, app, draining) = (self.shared.clone(), app.clone(), draining.clone());
            connections.spawn(async move {
                shared.serve(stream, address, app, draining).await;
                drop(place);
            });
        }
        drop(self.socket);
        drain.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN, all).await.is_err() {
            tracing::warn!("requests were cut off: they took more than {} s", DRAIN.as_secs());
        }
    }
}

impl Shared {
    async fn serve(self, stream: TcpStream, address: SocketAddr, app: Router, drain: watch::Receiver<bool>) {
        // Answers are small and somebody waits for them.
        _ = stream.set_nodelay(true);
        let peer = Peer::at(address);
        let Some(tls) = &self.tls else {
            return connection::serve(stream, peer, app, &self.builder, &self.limits, drain).await;
        };
        match timeout(self.limits.handshake(), tls.accept(stream)).await {
            Err(_) => tracing::info!(%address, "the TLS handshake took too long"),
            Ok(Err(error)) => tracing::info!(%address, %error, "no TLS"),
            Ok(Ok(stream)) => {
                let peer = match stream.get_ref().1.peer_certificates() {
                    Some(certificates) => peer.with_certificates(certificates),
                    None => peer,
                };
                connection::serve(stream, peer, app, &self.builder, &self.limits, drain).await;
            }
        }
    }
}

/// Connections that there may be.
#[derive(Debug, Clone)]
struct Places {
    taken: Arc<Mutex<Taken>>,
    each: usize,
    all: usize,
}

#[derive(Debug, Default)]
struct Taken {
    each: HashMap<IpAddr, usize>,
    all: usize,
}

/// One of them.
struct Place {
    taken: Arc<Mutex<Taken>>,
    host: Option<IpAddr>,
}

impl Places {
    fn new(limits: &Limits) -> Self {
        Self {
            taken: Arc::default(),
            each: limits.host_connections,
            all: limits.connections,
        }
    }

    /// A place for somebody, if there is one. Whoever is on this host, or comes through a proxy on it, is not one of many.
    fn take(&self, address: IpAddr) -> Option<Place> {
        let host = Some(host(address)).filter(|host| !host.is_loopback());
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.all {
            return None;
        }
        if let Some(host) = host {
            let each = taken.each.entry(host).or_default();
            if *each >= self.each {
                return None;
            }
            *each += 1;
        }
        taken.all += 1;
        Some(Place {
            taken: Arc::clone(&self.taken),
            host,
        })
    }
}

/// One host: it has one address of the old kind, or as many as it likes of a network of its own.
fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        if let Some(host) = self.host
            && let Some(each) = taken.each.get_mut(&host)
        {
            *each = each.saturating_sub(1);
            if *each == 0 {
                taken.each.remove(&host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_some_places_and_all_have_some_more() {
        let limits = Limits {
            host_connections: 2,
            connections: 3,
            ..Limits::default()
        };
        let places = Places::new(&limits);
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = places.take(at("10.0.0.1"));
        let second = places.take(at("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some());
        assert!(
            places.take(at("10.0.0.1")).is_none(),
            "the same host, written otherwise"
        );
        let third = places.take(at("10.0.0.2"));
        assert!(third.is_some() && places.take(at("10.0.0.3")).is_none());
        drop(first);
        assert!(places.take(at("10.0.0.1")).is_some());
        drop((second, third));
        assert!(places.taken.lock().unwrap().each.is_empty());
        let local: Vec<_> = (0..3).filter_map(|_| places.take(at("127.0.0.1"))).collect();
        assert_eq!(local.len(), 3);
    }

    #[test]
    fn a_network_of_ones_own_is_one_host() {
        let at = |text: &str| host(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8::1"));
        assert!(at("::1").is_loopback());
    }
}
