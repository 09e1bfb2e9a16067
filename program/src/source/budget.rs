//! Limits on work that honest debug information never reaches.
//!
//! Lists and tables are referred to by offset, and nothing keeps a hostile file from referring to a long
//! one a million times. An honest file refers to each about once, so what all of them may cost together is
//! bounded by the size of the file.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What may still be spent.
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub fn new(amount: usize) -> Self {
        Self(AtomicUsize::new(amount))
    }

    /// Takes an amount; `false` when there is not so much left.
    pub fn spend(&self, amount: usize) -> bool {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(amount)
        });
        taken.is_ok()
    }

    /// Adds what another file allows.
    pub fn extend(&self, amount: usize) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_add(amount))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn what_is_spent_is_gone() {
        let budget = Budget::new(3);
        assert!(budget.spend(2));
        assert!(!budget.spend(2));
        budget.extend(1);
        assert!(budget.spend(2));
        assert!(!budget.spend(1));
    }
}
