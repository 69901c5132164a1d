//! How far the payments of a run have come.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

/// The payments of one run.
pub struct Load {
    /// How many at least.
    pub payments: usize,
    /// Over how long they come in, evenly.
    pub spread: Duration,
    /// When the first was due.
    pub began: Instant,
    answered: watch::Sender<usize>,
    /// Whether the fault is over, and payments need not go on.
    over: watch::Sender<bool>,
}

impl Load {
    /// A load that begins now.
    pub fn begin(payments: usize, spread: Duration) -> Self {
        Self {
            payments,
            spread,
            began: Instant::now(),
            answered: watch::Sender::new(0),
            over: watch::Sender::new(false),
        }
    }

    /// How many payments were answered 201.
    pub fn answered(&self) -> usize {
        *self.answered.borrow()
    }

    /// Waits until so many payments were answered 201.
    ///
    /// # Errors
    ///
    /// When they are not in time.
    pub async fn until_answered(&self, n: usize, within: Duration) -> Result<()> {
        let mut answered = self.answered.subscribe();
        let enough = answered.wait_for(|answered| *answered >= n);
        if timeout(within, enough).await.is_err() {
            bail!("{} of {n} payments answered in time", self.answered());
        }
        Ok(())
    }

    /// Waits for a moment between the first payment (0.0) and the last (1.0).
    pub async fn until_moment(&self, part: f64) {
        let at = self.began + self.spread.mul_f64(part.max(0.0));
        sleep_until(at.into()).await;
    }

    /// Moments in order, at random between a tenth and nine tenths of the load.
    pub fn moments(&self, n: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
        let mut moments: Vec<f64> = (0..n).map(|_| 0.1 + 0.8 * rng.f64()).collect();
        moments.sort_by(f64::total_cmp);
        moments
    }

    /// Counts a payment that was answered 201.
    pub fn count(&self) {
        self.answered.send_modify(|answered| *answered += 1);
    }

    /// The fault is over.
    pub fn end(&self) {
        self.over.send_replace(true);
    }

    /// Waits until payment `n` is due; false when there is none. They go on at the same rate until
    /// the fault is over.
    pub async fn next(&self, n: usize) -> bool {
        let enough = n >= self.payments;
        if enough && *self.over.borrow() {
            return false;
        }
        let every = self.spread.as_secs_f64() / as_f64(self.payments.max(1));
        let at = self.began + Duration::from_secs_f64(every * as_f64(n));
        let mut over = self.over.subscribe();
        tokio::select! {
            () = sleep_until(at.into()) => true,
            _ = over.wait_for(|over| *over), if enough => false,
        }
    }
}

fn as_f64(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::MAX, f64::from)
}
