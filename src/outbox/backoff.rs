//! How long to wait before the next try: a pure function, so that tests never wait for it.

use std::time::Duration;

/// Exponential backoff with jitter and a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Wait after the first try, before jitter.
    pub base: Duration,
    /// No wait is longer before jitter, and no provider's wish counts beyond it.
    pub max: Duration,
}

impl Backoff {
    /// The wait after `tries` tries (1 is the first).
    ///
    /// `jitter` in 0..1 spreads waits between half and the whole of the exponential step: it never
    /// shortens below half. A provider's `hint` (Retry-After) is a floor, capped like the rest, with
    /// up to a quarter added, so that many rows with one hint do not come back in one instant.
    pub fn wait(&self, tries: u32, jitter: f64, hint: Option<Duration>) -> Duration {
        let jitter = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            1.0
        };
        let doublings = tries.saturating_sub(1);
        let step = 2_u32
            .checked_pow(doublings)
            .map_or(self.max, |factor| self.base.saturating_mul(factor))
            .min(self.max);
        let own = step / 2 + (step / 2).mul_f64(jitter);
        let hint = hint.unwrap_or_default().min(self.max);
        own.max(hint + (hint / 4).mul_f64(jitter))
    }

    /// No wait is longer than this.
    pub fn longest(&self) -> Duration {
        self.max.saturating_add(self.max / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_secs(1),
        max: Duration::from_secs(600),
    };

    #[test]
    fn doubles_from_the_base_up_to_the_cap() {
        let waits: Vec<u64> = [1, 2, 3, 10, 11, 20, 63, 64, u32::MAX]
            .into_iter()
            .map(|tries| BACKOFF.wait(tries, 1.0, None).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 512, 600, 600, 600, 600, 600]);
    }

    #[test]
    fn a_hint_is_a_floor_with_spread_and_a_cap() {
        let hint = Some(Duration::from_secs(2));
        assert_eq!(BACKOFF.wait(1, 0.0, hint), Duration::from_secs(2));
        assert_eq!(BACKOFF.wait(1, 1.0, hint), Duration::from_millis(2500));
        assert_eq!(
            BACKOFF.wait(1, 0.0, Some(Duration::MAX)),
            Duration::from_secs(600)
        );
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(
            tries in 0_u32..,
            jitter in proptest::num::f64::ANY,
            hint in proptest::option::of(0_u64..),
        ) {
            let hint = hint.map(Duration::from_millis);
            let wait = BACKOFF.wait(tries, jitter, hint);
            prop_assert!(wait >= BACKOFF.base / 2);
            prop_assert!(wait <= BACKOFF.longest());
            prop_assert!(wait >= hint.unwrap_or_default().min(BACKOFF.max));
        }

        #[test]
        fn never_shrinks_with_more_tries(tries in 0_u32..100, jitter in 0.0..1.0) {
            prop_assert!(BACKOFF.wait(tries + 1, jitter, None) >= BACKOFF.wait(tries, jitter, None));
        }
    }
}
