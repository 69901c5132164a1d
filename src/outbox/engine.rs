//! Puts the engine together, starts it, and stops it in order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::backoff::Backoff;
use super::decision::Policy;
use super::delivery::Courier;
use super::held::{Held, Holdings};
use super::janitor::{Janitor, Keeping};
use super::lane::{Lane, LaneShared};
use super::permits::Permits;
use super::recorder::{Order, Recorder};
use super::settler::{Settlements, Settler};
use crate::config::OutboxConfig;
use crate::metrics::{LaneMetrics, Metrics};
use crate::payment::Channel;
use crate::provider::Provider;
use crate::store::{Lease, Store, StoreError, Sweep, Verdict};

/// Payments that may wait for a commit; past it a POST is told to come back.
const ORDERS: usize = 4096;

/// Before the end of the grace, requests that are still out are cut.
const CUT_BEFORE_END: Duration = Duration::from_secs(2);

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
    bell: Arc<Notify>,
}

impl LaneStatus {
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
    orders: mpsc::Sender<Order>,
    lanes: Arc<Vec<LaneStatus>>,
    patience: Duration,
    give_up: Duration,
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

/// The running engine, for whoever starts and stops it.
pub struct Running {
    engine: Engine,
    recorder: JoinHandle<()>,
    loops: Vec<JoinHandle<()>>,
    settler: JoinHandle<()>,
    settlements: Settlements,
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
    died: CancellationToken,
}

impl Running {
    /// Starts the engine over a database whose schema is up to date.
    pub fn start(
        store: &Store,
        config: &OutboxConfig,
        patience: Duration,
        providers: Providers,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let holder = Uuid::new_v4();
        info!(instance = %holder, "this process's name on its leases");
        let stop = CancellationToken::new();
        let cut = CancellationToken::new();
        let died = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (settler, settlements) = Settler::new(store.clone(), holder, Arc::clone(metrics));
        let settler = watched("settler", settler.run(), &stop, &died);
        let mut doors = Vec::new();
        let mut statuses = Vec::new();
        let mut loops = Vec::new();
        let channels: Vec<Channel> = providers.iter().map(|(channel, _)| *channel).collect();
        for (channel, provider) in providers {
            let lane = lane_parts(
                store,
                config,
                holder,
                channel,
                provider,
                &settlements,
                metrics,
            );
            let (sender, queue) = mpsc::channel(config.queue_capacity);
            doors.push(LaneDoor {
                channel,
                provider: lane.courier.provider.name(),
                queue: sender,
                holdings: Arc::clone(&lane.holdings),
                bell: Arc::clone(&lane.bell),
            });
            statuses.push(LaneStatus {
                channel,
                provider: lane.courier.provider.name(),
                metrics: Arc::clone(&lane.metrics),
                bell: Arc::clone(&lane.bell),
            });
            let lane = Lane::new(
                Arc::new(lane),
                queue,
                config.batch_size,
                config.poll_interval,
                tasks.clone(),
                cut.clone(),
            );
            loops.push(watched("lane", lane.run(stop.clone()), &stop, &died));
        }
        let janitor = janitor(store, config, channels);
        loops.push(watched("janitor", janitor.run(stop.clone()), &stop, &died));
        let (orders, received) = mpsc::channel(ORDERS);
        let lease = Lease {
            holder,
            length: config.lease,
            give_up: config.give_up,
        };
        let recorder = Recorder::new(store.clone(), lease, doors, Arc::clone(metrics), received);
        let recorder = watched("recorder", recorder.run(), &stop, &died);
        let engine = Engine {
            orders,
            lanes: Arc::new(statuses),
            patience,
            give_up: config.give_up,
        };
        Self {
            engine,
            recorder,
            loops,
            settler,
            settlements,
            tasks,
            stop,
            cut,
            died,
        }
    }

    /// The engine for the HTTP side. All clones must be dropped before [`Running::shut_down`] can
    /// end.
    pub fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// Resolves when a part of the engine died, which takes the process down.
    pub async fn died(&self) {
        self.died.cancelled().await;
    }

    /// Stops in order: answer what the recorder has, stop claiming, let requests that are out
    /// finish, cut what is left shortly before `deadline`, write everything.
    ///
    /// Returns whether everything was written; what was not heals when its lease ends.
    pub async fn shut_down(self, deadline: Instant) -> bool {
        drop(self.engine);
        let mut clean = finish("recorder", self.recorder, deadline).await;
        self.stop.cancel();
        for part in self.loops {
            clean &= finish("loop", part, deadline).await;
        }
        self.tasks.close();
        let cut_at = deadline.checked_sub(CUT_BEFORE_END).unwrap_or(deadline);
        if timeout_at(cut_at, self.tasks.wait()).await.is_err() {
            warn!(
                requests = self.tasks.len(),
                "cutting requests that are still out: the next holder asks about them"
            );
            self.cut.cancel();
            self.tasks.wait().await;
        }
        drop(self.settlements);
        clean & finish("settler", self.settler, deadline).await
    }
}

async fn finish(name: &str, mut part: JoinHandle<()>, deadline: Instant) -> bool {
    match timeout_at(deadline, &mut part).await {
        Ok(ended) => ended.is_ok(),
        Err(_) => {
            warn!(part = name, "did not finish within the grace");
            part.abort();
            false
        }
    }
}

/// Spawns a part of the engine. None may end before the stop: one that does takes the process down,
/// rather than leave it alive and deaf.
fn watched(
    name: &'static str,
    part: impl Future<Output = ()> + Send + 'static,
    stop: &CancellationToken,
    died: &CancellationToken,
) -> JoinHandle<()> {
    let part = tokio::spawn(part);
    let stop = stop.clone();
    let died = died.clone();
    tokio::spawn(async move {
        let ended = part.await;
        if ended.is_err() {
            error!(part = name, "a part of the engine panicked");
            died.cancel();
        } else if !stop.is_cancelled() && name != "recorder" {
            error!(part = name, "a part of the engine ended by itself");
            died.cancel();
        }
    })
}

fn lane_parts(
    store: &Store,
    config: &OutboxConfig,
    holder: Uuid,
    channel: Channel,
    provider: Arc<dyn Provider>,
    settlements: &Settlements,
    metrics: &Arc<Metrics>,
) -> LaneShared {
    let policy = Policy {
        backoff: Backoff {
            base: config.backoff_base,
            max: config.backoff_max,
        },
        max_attempts: i32::try_from(config.max_attempts).unwrap_or(i32::MAX),
        provider_timeout: config.provider_timeout,
    };
    let permits = Permits::new(config.max_in_flight);
    LaneShared {
        channel,
        courier: Courier {
            provider,
            policy,
            metrics: Arc::clone(metrics),
        },
        store: store.clone(),
        holder,
        lease: config.lease,
        metrics: metrics.lane(channel, Arc::clone(&permits)),
        permits,
        holdings: Arc::default(),
        settlements: settlements.clone(),
        bell: Arc::default(),
        suspect_out: AtomicBool::new(false),
    }
}

fn janitor(store: &Store, config: &OutboxConfig, channels: Vec<Channel>) -> Janitor {
    let backoff = Backoff {
        base: config.backoff_base,
        max: config.backoff_max,
    };
    Janitor {
        store: store.clone(),
        sweep: Sweep {
            channels,
            latest_due: backoff.longest().saturating_add(config.lease),
            askable_after: config.provider_timeout,
        },
        keeping: Keeping {
            retention: config.retention,
            retention_failed: config.retention_failed,
        },
        poll_interval: config.poll_interval,
    }
}
