//! Says that the host is there, with its programs and what it can do.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::v1::{Capabilities, Program, RegisterRequest};
use pt_driver_client::recorder::{ControlFlow, Source, choose};
use tokio::sync::Notify;
use tracee::capability::{self, State};

use super::identity::Identity;
use crate::config::Config;
use crate::link::{Backoff, Link, patiently};

/// How often at most, and at least, whatever the server says.
const SOONEST: Duration = Duration::from_secs(5);
const LATEST: Duration = Duration::from_secs(3600);

/// What the server is told of this host.
pub(crate) struct Registration {
    basis: RegisterRequest,
    programs: Mutex<BTreeMap<Vec<u8>, Program>>,
    changed: Notify,
}

impl Registration {
    pub(crate) fn new(config: &Config, host: &str) -> Self {
        let found = capability::examine();
        let works = |name: &str| {
            let capability = found.capabilities.iter().find(|it| it.name == name);
            capability.is_some_and(|it| it.state != State::Missing)
        };
        let data_flow = [
            ("observe", works("watchpoints")),
            ("exact", works("exact-stops")),
            ("compat", works("ptrace-launch")),
        ];
        let control_flow = match choose(config.control_flow) {
            Ok(Some(Source::IntelPt)) => vec!["intel-pt".to_owned()],
            Ok(Some(Source::SoftwarePt | Source::SingleStep)) => vec!["software-pt".to_owned()],
            Ok(None) | Err(_) => Vec::new(),
        };
        if control_flow.is_empty() && config.control_flow != ControlFlow::None {
            tracing::warn!("control flow cannot be recorded here: see `failsketch doctor`");
        }
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let can = data_flow.into_iter().filter(|(_, can)| *can);
        Self {
            basis: RegisterRequest {
                host: host.to_owned(),
                hostname: hostname.trim().to_owned(),
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                protocol: proto::PROTOCOL,
                processor: found.facts.processor,
                kernel: found.facts.kernel,
                capabilities: Some(Capabilities {
                    registers: config.registers,
                    data_flow: can.map(|(name, _)| name.to_owned()).collect(),
                    control_flow,
                    ceiling_ppm: config.ceiling.0,
                    privacy: config.privacy.name().to_owned(),
                }),
                programs: Vec::new(),
            },
            programs: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// A program runs here.
    pub(crate) fn announce(&self, identity: &Identity) {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let before = programs.insert(identity.build_id.0.clone(), identity.program());
        if before.is_none() {
            self.changed.notify_one();
        }
    }

    fn programs(&self) -> Vec<Program> {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.values().cloned().collect()
    }

    /// Registers the host when it has a program, when it has another one, and as often as the server wants.
    pub(crate) async fn serve(self: Arc<Self>, link: Link) {
        let mut backoff = Backoff::default();
        self.changed.notified().await;
        loop {
            let request = RegisterRequest {
                programs: self.programs(),
                ..self.basis.clone()
            };
            let answer = patiently("the host", &mut backoff, || link.register(request.clone())).await;
            let again = match answer {
                Ok(answer) => Duration::from_secs(answer.again_after_seconds.into()).clamp(SOONEST, LATEST),
                Err(status) => {
                    let (code, message) = (status.code(), status.message());
                    tracing::warn!(?code, message, "the server does not register this host");
                    LATEST
                }
            };
            tokio::select! {
                () = self.changed.notified() => (),
                () = tokio::time::sleep(again) => (),
            }
        }
    }
}
