//! Puts the engine together, starts it, and stops it in order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::backoff::Backoff;
use super::carry::LaneShared;
use super::decision::Policy;
use super::delivery::Courier;
use super::engine::{Engine, LaneDoor, LaneStatus, Providers};
use super::gate::Gate;
use super::janitor::{Janitor, Keeping};
use super::lane::Lane;
use super::permits::Permits;
use super::recorder::Recorder;
use super::settler::{Settlements, Settler};
use super::throttle::Throttle;
use crate::config::OutboxConfig;
use crate::metrics::Metrics;
use crate::payment::Channel;
use crate::provider::Provider;
use crate::store::{Lease, Store, Sweep};

/// Payments that may wait for a commit; past it a POST is told to come back.
const ORDERS: usize = 4096;

/// Before the end of the grace, requests that are still out are cut.
const CUT_BEFORE_END: Duration = Duration::from_secs(2);

/// The running engine, for whoever starts and stops it.
pub struct Running {
    engine: Engine,
    recorder: Part,
    loops: Vec<Part>,
    settler: Part,
    settlements: Settlements,
    tasks: TaskTracker,
    switches: Switches,
}

/// What ends the parts of the engine.
#[derive(Clone, Default)]
struct Switches {
    /// No new work begins.
    stop: CancellationToken,
    /// Work under way is dropped.
    cut: CancellationToken,
    /// A part ended that must not.
    died: CancellationToken,
}

/// What the parts of the engine are made from.
struct Assembly<'a> {
    store: &'a Store,
    config: &'a OutboxConfig,
    metrics: &'a Arc<Metrics>,
    holder: Uuid,
    settlements: Settlements,
    tasks: TaskTracker,
    switches: Switches,
}

impl Running {
    /// Starts the engine over a database whose schema is up to date. A POST waits `patience` for
    /// its commit.
    pub fn start(
        store: &Store,
        config: &OutboxConfig,
        patience: Duration,
        providers: Providers,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let holder = Uuid::new_v4();
        info!(instance = %holder, "this process's name on its leases");
        let switches = Switches::default();
        let (settler, settlements) = Settler::new(store.clone(), holder, Arc::clone(metrics));
        let assembly = Assembly {
            store,
            config,
            metrics,
            holder,
            settlements,
            tasks: TaskTracker::new(),
            switches: switches.clone(),
        };
        let settler = switches.watch("settler", settler.run());
        let channels = providers.iter().map(|(channel, _)| *channel).collect();
        let janitor = assembly.janitor(channels).run(switches.stop.clone());
        let mut loops = vec![switches.watch("janitor", janitor)];
        let mut doors = Vec::new();
        let mut lanes = Vec::new();
        for (channel, provider) in providers {
            let (lane, door, status) = assembly.lane(channel, provider);
            let filling = lane.throttle().fill(switches.stop.clone());
            loops.push(switches.watch("throttle", filling));
            loops.push(switches.watch("lane", lane.run()));
            doors.push(door);
            lanes.push(status);
        }
        let (orders, received) = mpsc::channel(ORDERS);
        let recorder = assembly.recorder(doors, received);
        let engine = Engine {
            orders,
            lanes: Arc::new(lanes),
            patience,
            give_up: config.give_up,
        };
        Self {
            engine,
            recorder: switches.watch("recorder", recorder.run()),
            loops,
            settler,
            settlements: assembly.settlements,
            tasks: assembly.tasks,
            switches,
        }
    }

    /// The engine for the HTTP side. All clones must be dropped before [`Running::shut_down`] can
    /// end.
    pub fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// Resolves when a part of the engine died, which takes the process down.
    pub async fn died(&self) {
        self.switches.died.cancelled().await;
    }

    /// Stops in order: answer what the recorder has, stop claiming, let requests that are out
    /// finish, cut what is left shortly before `deadline`, write everything.
    ///
    /// Returns whether everything was written; what was not heals when its lease ends.
    pub async fn shut_down(self, deadline: Instant) -> bool {
        drop(self.engine);
        let mut clean = self.recorder.finish(deadline).await;
        self.switches.stop.cancel();
        for part in self.loops {
            clean &= part.finish(deadline).await;
        }
        self.tasks.close();
        let cut_at = deadline.checked_sub(CUT_BEFORE_END).unwrap_or(deadline);
        if timeout_at(cut_at, self.tasks.wait()).await.is_err() {
            warn!(
                requests = self.tasks.len(),
                "cutting requests that are still out: the next holder asks about them"
            );
            self.switches.cut.cancel();
            // A claim that is under way is not cut: it has the database's own deadline.
            if timeout_at(deadline, self.tasks.wait()).await.is_err() {
                clean = false;
            }
        }
        drop(self.settlements);
        clean & self.settler.finish(deadline).await
    }
}

/// A part of the engine, and who watches it.
struct Part {
    name: &'static str,
    watcher: JoinHandle<()>,
    abort: AbortHandle,
}

impl Part {
    /// Waits for its end, but not beyond the deadline. Returns whether it ended by itself.
    async fn finish(self, deadline: Instant) -> bool {
        match timeout_at(deadline, self.watcher).await {
            Ok(ended) => ended.is_ok(),
            Err(_) => {
                warn!(part = self.name, "did not finish within the grace");
                self.abort.abort();
                false
            }
        }
    }
}

impl Switches {
    /// Spawns a part of the engine. None may end before the stop: one that does takes the process
    /// down, rather than leave it alive and deaf.
    fn watch(&self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) -> Part {
        let part = tokio::spawn(part);
        let abort = part.abort_handle();
        let switches = self.clone();
        let watcher = tokio::spawn(async move {
            let ended = part.await;
            // The recorder ends first, when the server that feeds it is gone.
            let expected = name == "recorder" || switches.stop.is_cancelled();
            if ended.is_err() {
                error!(part = name, "a part of the engine panicked");
                switches.died.cancel();
            } else if !expected {
                error!(part = name, "a part of the engine ended by itself");
                switches.died.cancel();
            }
        });
        Part {
            name,
            watcher,
            abort,
        }
    }
}

impl Assembly<'_> {
    fn lane(&self, channel: Channel, provider: Arc<dyn Provider>) -> (Lane, LaneDoor, LaneStatus) {
        let shared = self.lane_shared(channel, provider);
        let (sender, queue) = mpsc::channel(self.queue_capacity(channel));
        let door = LaneDoor {
            channel,
            provider: shared.courier.provider.name(),
            queue: sender,
            holdings: Arc::clone(&shared.holdings),
            breaker: Arc::clone(&shared.gate.breaker),
            bell: Arc::clone(&shared.bell),
        };
        let status = LaneStatus {
            channel,
            provider: shared.courier.provider.name(),
            metrics: Arc::clone(&shared.metrics),
            breaker: Arc::clone(&shared.gate.breaker),
            bell: Arc::clone(&shared.bell),
        };
        let lane = Lane::new(
            Arc::new(shared),
            queue,
            self.config.batch_size,
            self.config.poll_interval,
            self.tasks.clone(),
            self.switches.cut.clone(),
        );
        (lane, door, status)
    }

    /// A row waits for its turn under a lease: no longer than a second for the throttle.
    fn queue_capacity(&self, channel: Channel) -> usize {
        let rate = self.config.max_per_second(channel);
        let second = rate.and_then(|rate| usize::try_from(rate).ok());
        self.config.queue_capacity.min(second.unwrap_or(usize::MAX))
    }

    fn lane_shared(&self, channel: Channel, provider: Arc<dyn Provider>) -> LaneShared {
        LaneShared {
            channel,
            courier: Courier {
                provider,
                policy: self.policy(),
                metrics: Arc::clone(self.metrics),
                store: self.store.clone(),
            },
            store: self.store.clone(),
            holder: self.holder,
            lease: self.config.lease,
            metrics: self.metrics.lane(channel),
            gate: Gate {
                permits: Permits::new(self.config.max_in_flight),
                throttle: Throttle::new(self.config.max_per_second(channel)),
                breaker: Arc::default(),
            },
            holdings: Arc::default(),
            settlements: self.settlements.clone(),
            bell: Arc::default(),
            stop: self.switches.stop.clone(),
            suspect_out: AtomicBool::new(false),
        }
    }

    fn policy(&self) -> Policy {
        Policy {
            backoff: self.backoff(),
            max_attempts: i32::try_from(self.config.max_attempts).unwrap_or(i32::MAX),
            provider_timeout: self.config.provider_timeout,
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff {
            base: self.config.backoff_base,
            max: self.config.backoff_max,
        }
    }

    fn recorder(
        &self,
        doors: Vec<LaneDoor>,
        orders: mpsc::Receiver<super::recorder::Order>,
    ) -> Recorder {
        let lease = Lease {
            holder: self.holder,
            length: self.config.lease,
            give_up: self.config.give_up,
        };
        Recorder::new(
            self.store.clone(),
            lease,
            doors,
            Arc::clone(self.metrics),
            orders,
        )
    }

    fn janitor(&self, channels: Vec<Channel>) -> Janitor {
        Janitor {
            store: self.store.clone(),
            sweep: Sweep {
                channels,
                latest_due: self.backoff().longest().saturating_add(self.config.lease),
                lease: self.config.lease,
                askable_after: self.config.provider_timeout,
            },
            keeping: Keeping {
                retention: self.config.retention,
                retention_failed: self.config.retention_failed,
            },
            poll_interval: self.config.poll_interval,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
