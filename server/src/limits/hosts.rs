//! The limits of each host, and of all together.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tonic::Status;

use super::budget::{Budget, Guard};
use super::later;
use super::rate::Rate;
use crate::config::Limits;

/// When hosts are so many, those that ask for nothing are forgotten.
const MANY: usize = 4096;

/// Everybody's limits.
#[derive(Debug)]
pub struct Hosts {
    limits: Limits,
    bytes: Budget,
    requests: Mutex<Rate>,
    each: Mutex<HashMap<String, Each>>,
}

#[derive(Debug)]
struct Each {
    bytes: Budget,
    requests: Rate,
}

/// What one request takes memory from.
#[derive(Clone, Debug)]
pub struct Host {
    own: Option<Budget>,
    all: Budget,
}

/// Memory of a host and of all.
#[derive(Debug)]
#[must_use]
pub struct Taken {
    _own: Option<Guard>,
    _all: Guard,
}

impl Hosts {
    /// Nobody yet.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            bytes: Budget::new(limits.bytes, "bytes"),
            requests: Mutex::new(Rate::new(limits.requests, Instant::now())),
            each: Mutex::default(),
        }
    }

    /// The memory of all.
    #[must_use]
    pub fn bytes(&self) -> &Budget {
        &self.bytes
    }

    /// One more request of a host; of nobody in particular if it is `None`. What a host has too many of is not counted for all.
    pub fn request(&self, host: Option<&str>) -> Result<Host, Status> {
        let now = Instant::now();
        let mut each = lock(&self.each);
        if each.len() >= MANY {
            each.retain(|_, each| each.bytes.is_used() || !each.requests.is_full(now));
        }
        let mut own = None;
        if let Some(host) = host {
            // When all of them are at work, those who come now share what is left.
            let host = if each.len() < 2 * MANY { host } else { "" };
            if !each.contains_key(host) {
                let new = Each {
                    bytes: Budget::new(self.limits.host_bytes, "host_bytes"),
                    requests: Rate::new(self.limits.host_requests, now),
                };
                each.insert(host.to_owned(), new);
            }
            if let Some(each) = each.get_mut(host) {
                each.requests.take(now).map_err(|wait| {
                    let most = self.limits.host_requests;
                    later(
                        format!("more than {most} requests a second (`limits.host_requests`)"),
                        wait,
                    )
                })?;
                own = Some(each.bytes.clone());
            }
        }
        drop(each);
        lock(&self.requests).take(now).map_err(|wait| {
            let most = self.limits.requests;
            later(
                format!("more than {most} requests a second from all hosts (`limits.requests`)"),
                wait,
            )
        })?;
        Ok(Host {
            own,
            all: self.bytes.clone(),
        })
    }
}

impl Host {
    /// Memory for a message.
    pub fn take(&self, bytes: usize) -> Result<Taken, Status> {
        let own = self.own.as_ref().map(|own| own.take(bytes)).transpose()?;
        Ok(Taken {
            _own: own,
            _all: self.all.take(bytes)?,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(host_requests: u32, requests: u32) -> Hosts {
        Hosts::new(&Limits {
            host_requests,
            requests,
            host_bytes: 100,
            bytes: 150,
            ..Limits::default()
        })
    }

    #[test]
    fn one_host_does_not_use_up_what_others_have() {
        let hosts = hosts(5, 0);
        let taken = (0..100).take_while(|_| hosts.request(Some("a")).is_ok()).count();
        assert_eq!(taken, 10);
        let refused = hosts.request(Some("a")).unwrap_err();
        assert!(refused.message().contains("limits.host_requests"), "{refused}");
        assert!(super::super::retry_after(&refused).is_some());
        let (a, b) = (hosts.request(None).unwrap(), hosts.request(Some("b")).unwrap());
        drop(a);
        let taken = b.take(100).unwrap();
        assert!(b.take(1).unwrap_err().message().contains("limits.host_bytes"));
        let c = hosts.request(Some("c")).unwrap();
        assert!(c.take(51).unwrap_err().message().contains("limits.bytes"));
        drop(c.take(50).unwrap());
        drop(taken);
        drop(c.take(100).unwrap());
    }

    #[test]
    fn all_together_have_a_limit_too() {
        let hosts = hosts(0, 5);
        let taken = (0..100)
            .take_while(|n| hosts.request(Some(&n.to_string())).is_ok())
            .count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn hosts_without_number_take_no_memory_without_end() {
        let hosts = hosts(0, 0);
        for n in 0..(3 * MANY) {
            drop(hosts.request(Some(&n.to_string())).unwrap());
        }
        assert!(lock(&hosts.each).len() <= MANY);
    }
}
