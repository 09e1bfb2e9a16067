//! Whose a host is: nobody speaks for another one's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Status;

use super::House;
use crate::access::Identity;
use crate::access::identity::shown;
use crate::clock::now;
use crate::store::StoreError;
use crate::store::model::{Owner, Standing};

/// How long it is believed what the store said. A host that was given to somebody else is its old owner's for so long, here.
const BELIEVED: Duration = Duration::from_secs(60);

/// Hosts that somebody spoke for lately, so that the store is not asked with every report.
#[derive(Debug, Default)]
pub struct Claims(Mutex<HashMap<String, (Owner, Instant)>>);

impl Claims {
    /// More are forgotten, and looked up again.
    const MOST: usize = 16_384;

    fn has(&self, host: &str, owner: &Owner) -> bool {
        let claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = claims.get(host);
        known.is_some_and(|(known, at)| known == owner && at.elapsed() < BELIEVED)
    }

    fn learn(&self, host: &str, owner: Owner) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.len() >= Self::MOST {
            claims.clear();
        }
        claims.insert(host.to_owned(), (owner, Instant::now()));
    }
}

impl House {
    /// Fails if a host is somebody else's. One that nobody has spoken for is whose who does.
    pub(super) async fn speaks_for(&self, who: &Identity, host: &str) -> Result<(), Status> {
        let owner = who.owner();
        if self.claims.has(host, &owner) {
            return Ok(());
        }
        let standing = self.store.claim(host, &owner, now()).await;
        self.stands(who, host, standing)?;
        self.claims.learn(host, owner);
        Ok(())
    }

    /// What it means to somebody how he stands to a host.
    pub(super) fn stands(
        &self,
        who: &Identity,
        host: &str,
        standing: Result<Standing, StoreError>,
    ) -> Result<(), Status> {
        match standing.map_err(|error| self.of_store(error))? {
            Standing::Own => Ok(()),
            Standing::TooMany => {
                self.metrics.hosts_refused.add(1);
                let (owner, most) = (who.owner(), self.limits.hosts);
                Err(Status::failed_precondition(format!(
                    "{} speaks for {most} hosts, and may for no more (`limits.hosts`): one that says nothing is forgotten after \
                     `retention.bug_days`",
                    shown(&owner.0)
                )))
            }
            Standing::Taken => {
                self.metrics.hosts_refused.add(1);
                let owner = who.owner();
                tracing::warn!(host, who = owner.0, "a host is somebody else's");
                Err(Status::permission_denied(format!(
                    "host {host} is not {}'s: another credential spoke for it first. If it was given a new one, \
                     `failsketch serve --release-host {host}` where the server's configuration is lets it in",
                    shown(&owner.0)
                )))
            }
        }
    }
}
