//! Memory that is lent to requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tonic::Status;

use super::later;

/// When somebody should try again who found no memory: messages are received and worked on in less.
const AGAIN: Duration = Duration::from_millis(500);

/// So many bytes, of which each request takes some for a while.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<AtomicUsize>,
    all: usize,
    whose: &'static str,
}

/// Bytes that were taken. They go back when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Guard {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    /// A budget; `whose` is the setting that it comes from.
    #[must_use]
    pub fn new(bytes: usize, whose: &'static str) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(bytes)),
            all: bytes,
            whose,
        }
    }

    /// Takes some bytes, if there are so many.
    pub fn take(&self, bytes: usize) -> Result<Guard, Status> {
        let enough = |left: usize| left.checked_sub(bytes);
        match self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, enough)
        {
            Ok(_) => Ok(Guard {
                left: Arc::clone(&self.left),
                bytes,
            }),
            Err(left) => Err(later(
                format!(
                    "there is no room for {bytes} bytes now: {left} of {} are left (`limits.{}`). Try again later",
                    self.all, self.whose
                ),
                AGAIN,
            )),
        }
    }

    /// Whether somebody has some of it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.left.load(Ordering::Acquire) != self.all
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::retry_after;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100, "bytes");
        let one = budget.take(60).unwrap();
        let refused = budget.take(41).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert_eq!(retry_after(&refused), Some(AGAIN));
        assert!(refused.message().contains("40 of 100") && refused.message().contains("limits.bytes"));
        let other = budget.take(40).unwrap();
        drop(one);
        assert!(budget.is_used());
        drop(other);
        assert!(!budget.is_used());
        drop(budget.take(100).unwrap());
    }

    #[test]
    fn threads_never_have_more_than_there_is() {
        let budget = Budget::new(1000, "bytes");
        let most = AtomicUsize::new(0);
        let now = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for bytes in [7, 300, 501, 999] {
                let (budget, most, now) = (&budget, &most, &now);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if let Ok(guard) = budget.take(bytes) {
                            let sum = now.fetch_add(bytes, Ordering::AcqRel) + bytes;
                            most.fetch_max(sum, Ordering::AcqRel);
                            now.fetch_sub(bytes, Ordering::AcqRel);
                            drop(guard);
                        }
                    }
                });
            }
        });
        assert!(most.into_inner() <= 1000);
        assert!(!budget.is_used());
    }
}
