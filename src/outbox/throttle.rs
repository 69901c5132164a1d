//! Requests a second toward one provider.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// A bucket that fills at a fixed rate, up to one second's worth.
///
/// Tokens are a semaphore's permits rather than a limiter crate's cells because a claim takes them
/// for as many rows as it may find, and gives back what it did not find.
#[derive(Debug, Clone)]
pub struct Throttle {
    bucket: Option<(Arc<Semaphore>, u32)>,
}

/// The right to send one request; spent when it begins, given back when it does not.
#[derive(Debug)]
pub struct Token(Option<OwnedSemaphorePermit>);

impl Token {
    /// The request begins.
    pub fn spend(self) {
        if let Some(permit) = self.0 {
            permit.forget();
        }
    }
}

impl Throttle {
    /// `per_second` requests a second, or no bound at all.
    pub fn new(per_second: Option<u32>) -> Self {
        Self {
            bucket: per_second.map(|rate| (Arc::new(Semaphore::new(1)), rate.max(1))),
        }
    }

    /// Takes up to `wanted` tokens.
    pub fn take(&self, wanted: usize) -> Vec<Token> {
        let Some((bucket, _)) = &self.bucket else {
            return (0..wanted).map(|_| Token(None)).collect();
        };
        std::iter::from_fn(|| Arc::clone(bucket).try_acquire_owned().ok())
            .take(wanted)
            .map(|permit| Token(Some(permit)))
            .collect()
    }

    /// How long until a token may be there; zero without a bound.
    pub fn period(&self) -> Duration {
        match &self.bucket {
            Some((_, rate)) => Duration::from_secs(1) / *rate,
            None => Duration::ZERO,
        }
    }

    /// Fills the bucket until told to stop.
    pub async fn fill(self, stop: CancellationToken) {
        let Some((bucket, rate)) = self.bucket else {
            return stop.cancelled().await;
        };
        let full = usize::try_from(rate).unwrap_or(usize::MAX);
        let mut ticks = interval(Duration::from_secs(1) / rate);
        // A pause is not made up for: the provider's bound holds in every second.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if bucket.available_permits() < full {
                bucket.add_permits(1);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokens_come_at_the_rate_and_pile_up_to_one_second() {
        let throttle = Throttle::new(Some(5));
        let stop = CancellationToken::new();
        let filling = tokio::spawn(throttle.clone().fill(stop.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(throttle.take(100).len(), 5);
        stop.cancel();
        filling.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_not_spent_is_given_back() {
        let throttle = Throttle::new(Some(5));
        drop(throttle.take(1));
        let tokens = throttle.take(9);
        assert_eq!(tokens.len(), 1);
        tokens.into_iter().for_each(Token::spend);
        assert_eq!(throttle.take(9).len(), 0);
    }
}
