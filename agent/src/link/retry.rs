//! When to try again, and when there is no use in it.

use std::error::Error as _;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tonic::{Code, Status};

/// The longest pause between two attempts.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a refusal means for whoever was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing is wrong with what was sent: send it again, later.
    Later,
    /// The server is older than this agent and has no such method: do without.
    Without,
    /// It will be refused every time.
    Never,
}

/// What to do about a refusal.
#[must_use]
pub fn remedy(status: &Status) -> Remedy {
    // What has a cause was not said by the server: the connection broke, whatever the code is.
    if status.source().is_some() {
        return Remedy::Later;
    }
    match status.code() {
        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted => Remedy::Later,
        // A server that is being stopped cancels, and one without a database yet knows nobody. A token that is wrong
        // now may be known to the server in an hour; what is kept for it meanwhile is bounded.
        Code::Cancelled | Code::Unauthenticated | Code::Internal | Code::Unknown => Remedy::Later,
        Code::Unimplemented => Remedy::Without,
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::DataLoss => Remedy::Never,
    }
}

/// Pauses that double from attempt to attempt, each a little different: a thousand agents that lost their server must
/// not all come back in the same instant.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    attempts: u32,
    random: RandomState,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::from(Duration::from_millis(500))
    }
}

impl From<Duration> for Backoff {
    /// The first pause is at most so long.
    fn from(first: Duration) -> Self {
        Self {
            first,
            attempts: 0,
            random: RandomState::new(),
        }
    }
}

impl Backoff {
    /// The pause before the next attempt: between half and all of what is due.
    pub fn pause(&mut self) -> Duration {
        let due = self
            .first
            .saturating_mul(1 << self.attempts.min(20))
            .min(LONGEST_PAUSE);
        self.attempts = self.attempts.saturating_add(1);
        let share = self.random.hash_one(self.attempts) % 1001;
        let half = due / 2;
        half + half.mul_f64(share as f64 / 1000.0)
    }

    /// It worked: the next pause is a short one again.
    pub fn reset(&mut self) {
        self.attempts = 0;
        // Another order of pauses than last time.
        self.random = RandomState::new();
    }
}

/// Asks until there is an answer, or a refusal that will not change. Dropping this gives up.
///
/// # Errors
/// The refusal.
pub async fn patiently<T, F>(
    what: &str,
    backoff: &mut Backoff,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    loop {
        match attempt().await {
            Ok(answer) => {
                backoff.reset();
                return Ok(answer);
            }
            Err(status) if remedy(&status) == Remedy::Later => {
                let pause = backoff.pause();
                let (code, message) = (status.code(), status.message());
                tracing::warn!(
                    what,
                    ?code,
                    message,
                    ?pause,
                    "the server could not take it: trying again"
                );
                tokio::time::sleep(pause).await;
            }
            Err(status) => return Err(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_change_is_tried_again() {
        for code in [
            Code::Unavailable,
            Code::ResourceExhausted,
            Code::DeadlineExceeded,
            Code::Aborted,
        ] {
            assert_eq!(remedy(&Status::new(code, "")), Remedy::Later, "{code:?}");
        }
        for code in [Code::InvalidArgument, Code::PermissionDenied] {
            assert_eq!(remedy(&Status::new(code, "")), Remedy::Never, "{code:?}");
        }
        assert_eq!(remedy(&Status::unimplemented("")), Remedy::Without);
    }

    #[test]
    fn a_connection_that_broke_is_no_answer() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let status = Status::from_error(Box::new(broken));
        assert_eq!(remedy(&status), Remedy::Later);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let mut backoff = Backoff::from(Duration::from_secs(1));
        for due in [1, 2, 4, 8, 16, 30, 30, 30] {
            let due = Duration::from_secs(due);
            let pause = backoff.pause();
            assert!(due / 2 <= pause && pause <= due, "{pause:?} of {due:?}");
        }
        for _ in 0..100 {
            assert!(backoff.pause() <= LONGEST_PAUSE);
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_secs(1));
        let firsts: std::collections::BTreeSet<Duration> = (0..20)
            .map(|_| Backoff::from(Duration::from_secs(1)).pause())
            .collect();
        assert!(firsts.len() > 10, "agents that come back together: {firsts:?}");
    }

    #[tokio::test]
    async fn a_refusal_ends_the_attempts() {
        let mut attempts = 0;
        let mut backoff = Backoff::from(Duration::from_millis(1));
        let refused: Result<(), Status> = patiently("a test", &mut backoff, || {
            attempts += 1;
            let status = match attempts {
                1..3 => Status::unavailable("not yet"),
                _ => Status::invalid_argument("never"),
            };
            async move { Err(status) }
        })
        .await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(attempts, 3);
    }
}
