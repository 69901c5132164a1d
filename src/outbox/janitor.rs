//! Retention, give-up and what else must not wait for a lane.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::store::{Store, StoreError, Sweep};

/// Between two sweeps over the whole table.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Rows changed in one transaction: short enough that a POST beside it does not notice.
const STEP: i64 = 500;

/// What is kept, and for how long.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// `SENT` and `CANCELED` rows.
    pub retention: Duration,
    /// Personal data of `FAILED` rows; `None`: for ever.
    pub retention_failed: Option<Duration>,
}

/// The loop.
pub struct Janitor {
    /// The database.
    pub store: Store,
    /// For sweeps over pending rows.
    pub sweep: Sweep,
    /// For retention.
    pub keeping: Keeping,
    /// Between two looks for rows of unknown channels.
    pub poll_interval: Duration,
}

impl Janitor {
    /// Runs until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut ticks = interval(self.poll_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next_sweep = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            report(
                "parking rows of unknown channels",
                self.store.park_unknown_channels().await,
            );
            if Instant::now() >= next_sweep {
                next_sweep = Instant::now() + SWEEP_INTERVAL;
                self.tidy(&stop).await;
            }
        }
    }

    async fn tidy(&self, stop: &CancellationToken) {
        // First of all: what follows compares moments that are told by one clock.
        self.step_by_step(stop, "retelling what a clock ahead of ours wrote", || {
            self.store.retell(&self.sweep, STEP)
        })
        .await;
        report("giving up", self.store.give_up(&self.sweep).await);
        report("pulling back", self.store.pull_back(&self.sweep).await);
        let retention = self.keeping.retention;
        self.step_by_step(stop, "removing old rows", || {
            self.store.purge(retention, STEP)
        })
        .await;
        if let Some(age) = self.keeping.retention_failed {
            self.step_by_step(stop, "blanking old failures", || {
                self.store.blank_failed(age, STEP)
            })
            .await;
        }
    }

    /// Many short transactions rather than one that holds everybody up.
    async fn step_by_step<F>(&self, stop: &CancellationToken, what: &str, step: impl Fn() -> F)
    where
        F: Future<Output = Result<usize, StoreError>>,
    {
        let full = usize::try_from(STEP).unwrap_or(usize::MAX);
        let mut total = 0;
        while !stop.is_cancelled() {
            let done = match step().await {
                Ok(done) => done,
                Err(fault) => {
                    warn!(%fault, "{what} failed: trying again in a minute");
                    break;
                }
            };
            total += done;
            if done < full {
                break;
            }
            // Others get their turn at the one writer.
            tokio::task::yield_now().await;
        }
        if total > 0 {
            info!(rows = total, "{what}");
        }
    }
}

fn report(what: &str, result: Result<usize, StoreError>) {
    match result {
        Ok(0) => {}
        Ok(rows) => warn!(rows, "{what}"),
        Err(fault) => warn!(%fault, "{what} failed: trying again"),
    }
}
