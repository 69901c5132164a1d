//! The engine as the rest of the program sees it: a way to record, and lanes to look at.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use super::breaker::{Breaker, State};
use super::held::{Held, Holdings};
use super::recorder::Order;
use crate::metrics::LaneMetrics;
use crate::payment::Channel;
use crate::provider::Provider;
use crate::store::{StoreError, Verdict};

/// The provider of each channel that is configured.
pub type Providers = Vec<(Channel, Arc<dyn Provider>)>;

/// What the recorder needs of a lane.
#[derive(Clone)]
pub struct LaneDoor {
    /// What the lane carries.
    pub channel: Channel,
    /// Name of its provider, written on the rows.
    pub provider: &'static str,
    /// The bounded channel between commit and delivery.
    pub queue: mpsc::Sender<Held>,
    /// Where sent rows are noted as held.
    pub holdings: Arc<Holdings>,
    /// While it is open, rows are born due: nobody waits for it under a lease.
    pub breaker: Arc<Breaker>,
    /// Rung when a row was born due.
    pub bell: Arc<Notify>,
}

/// A lane as operators see it.
#[derive(Clone)]
pub struct LaneStatus {
    /// What it carries.
    pub channel: Channel,
    /// Its provider.
    pub provider: &'static str,
    /// Its figures.
    pub metrics: Arc<LaneMetrics>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) bell: Arc<Notify>,
}

impl LaneStatus {
    /// How the breaker toward its provider stands.
    pub fn breaker(&self) -> State {
        self.breaker.state()
    }

    /// Has the lane look for due rows now rather than at the next poll.
    pub fn ring(&self) {
        self.bell.notify_one();
    }
}

/// Why a payment was not recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// Too many payments wait for their commit already.
    #[error("too many payments wait for their commit")]
    Overloaded,
    /// No commit within the time allowed; it may still happen, and its key will find it.
    #[error("no commit within the time allowed")]
    Late,
    /// The database refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The engine as the HTTP side sees it. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) lanes: Arc<Vec<LaneStatus>>,
    pub(super) patience: Duration,
    pub(super) give_up: Duration,
}

impl Engine {
    /// Commits a payment with its outbox rows; delivery starts by itself.
    ///
    /// # Errors
    /// When it cannot be committed in time. After [`RecordError::Late`] the commit may have
    /// happened all the same.
    pub async fn record(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<Verdict, StoreError>>) -> Order,
    ) -> Result<Verdict, RecordError> {
        let (reply, answer) = oneshot::channel();
        if self.orders.try_send(make(reply)).is_err() {
            return Err(RecordError::Overloaded);
        }
        match timeout(self.patience, answer).await {
            Ok(Ok(result)) => Ok(result?),
            // A recorder that dropped the order: it is shutting down, or it broke off.
            Ok(Err(_)) | Err(_) => Err(RecordError::Late),
        }
    }

    /// The lanes, in the order of their channels.
    pub fn lanes(&self) -> &[LaneStatus] {
        &self.lanes
    }

    /// Time from birth or replay to giving up.
    pub fn give_up(&self) -> Duration {
        self.give_up
    }
}
