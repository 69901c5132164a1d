//! One provider's lane: two doors, one corridor.
//!
//! ```text
//!   recorder ── bounded channel ──► fast door ─┐
//!                                              ├─ permit ─► courier ─► settler
//!   database ── claim (scheduler) ► due door ──┘
//! ```
//!
//! A permit is taken before a row is popped or claimed and held until the outcome is written, so
//! claims never exceed what can be sent, and a hanging provider holds up nobody but itself.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use super::decision::Timing;
use super::delivery::{Courier, Step};
use super::held::{Held, Holdings};
use super::permits::{Door, Permit, Permits};
use super::settler::{Job, Settlements};
use crate::metrics::LaneMetrics;
use crate::payment::Channel;
use crate::provider::{Answer, Outcome};
use crate::store::{Claim, Moment, Store};

/// What the lane and its tasks share.
pub struct LaneShared {
    /// What the lane carries.
    pub channel: Channel,
    /// Carries the rows.
    pub courier: Courier,
    /// The database.
    pub store: Store,
    /// This process.
    pub holder: uuid::Uuid,
    /// Length of a claimed lease.
    pub lease: Duration,
    /// Requests out at a time.
    pub permits: Arc<Permits>,
    /// Rows in hand.
    pub holdings: Arc<Holdings>,
    /// The way to the settler.
    pub settlements: Settlements,
    /// What is told of the lane.
    pub metrics: Arc<LaneMetrics>,
    /// Rung when rows became due before the next poll.
    pub bell: Arc<Notify>,
    /// A row whose holders kept dying is in flight: there is at most one.
    pub suspect_out: AtomicBool,
}

/// The loop.
pub struct Lane {
    shared: Arc<LaneShared>,
    queue: mpsc::Receiver<Held>,
    head: Option<Held>,
    batch_size: usize,
    poll_interval: Duration,
    scheduler: Scheduler,
    claims: (mpsc::Sender<Claimed>, mpsc::Receiver<Claimed>),
    tasks: TaskTracker,
    cut: CancellationToken,
}

/// What the due door knows.
struct Scheduler {
    /// Rows may be due.
    wanted: bool,
    /// A poll or a bell asks for whatever permits there are; otherwise claims wait until half a
    /// batch of permits is free, rather than take row by row.
    pressing: bool,
    /// A claim is under way; there is one at a time.
    claiming: bool,
    /// Rows due before it were claimed already: spares reading over what was just claimed. It is
    /// dropped at each poll and after a batch that was not full.
    low_water: Moment,
}

/// What a claim came to.
struct Claimed {
    full: bool,
    low_water: Option<Moment>,
}

impl Lane {
    /// A lane over its shared part, fed through `queue`. Tasks end at once when `cut`.
    pub fn new(
        shared: Arc<LaneShared>,
        queue: mpsc::Receiver<Held>,
        batch_size: usize,
        poll_interval: Duration,
        tasks: TaskTracker,
        cut: CancellationToken,
    ) -> Self {
        Self {
            shared,
            queue,
            head: None,
            batch_size,
            poll_interval,
            scheduler: Scheduler {
                wanted: true,
                pressing: true,
                claiming: false,
                low_water: Moment::DISTANT_PAST,
            },
            claims: mpsc::channel(1),
            tasks,
            cut,
        }
    }

    /// Runs until told to stop; then lets go of what it has not begun to send.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut polls = interval(self.poll_interval);
        // After a pause one poll is enough, not one for each that was missed.
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            self.start_fresh();
            self.start_claim();
            let stale_at = self.stale_at();
            tokio::select! {
                () = stop.cancelled() => {}
                held = self.queue.recv(), if self.head.is_none() => match held {
                    Some(held) => self.head = Some(held),
                    None => stop.cancelled().await,
                },
                () = self.shared.permits.freed.notified() => {}
                Some(claimed) = self.claims.1.recv() => self.scheduler.learn(&claimed),
                _ = polls.tick() => {
                    self.shared.metrics.turned();
                    self.scheduler.poll();
                }
                () = self.shared.bell.notified() => self.scheduler.press(),
                () = sleep_until(stale_at.unwrap_or_else(Instant::now).into()),
                    if stale_at.is_some() => self.release_stale(),
            }
        }
        self.release_all();
    }

    /// Starts fresh rows while there are permits for them.
    fn start_fresh(&mut self) {
        loop {
            if self.head.is_none() {
                self.head = self.queue.try_recv().ok();
            }
            self.shared
                .metrics
                .queue_depth(self.queue.len() + usize::from(self.head.is_some()));
            let due_waits = self.scheduler.wanted && !self.scheduler.claiming;
            let permits = &self.shared.permits;
            let permit = match &self.head {
                Some(_) => permits.take(Door::Fast, 1, 1, due_waits).pop(),
                None => None,
            };
            let Some(permit) = permit else { return };
            if let Some(held) = self.head.take() {
                self.carry(held, permit);
            }
        }
    }

    /// Starts a claim for as many rows as there are permits.
    fn start_claim(&mut self) {
        if !self.scheduler.wanted || self.scheduler.claiming {
            return;
        }
        let permits = &self.shared.permits;
        let wanted = self.batch_size.min(permits.max());
        let least = if self.scheduler.pressing {
            1
        } else {
            wanted.div_ceil(2)
        };
        let fresh_waits = self.head.is_some();
        let permits = permits.take(Door::Due, wanted, least, fresh_waits);
        if permits.is_empty() {
            return;
        }
        let claim = self.claim(permits.len());
        let with_suspect = self.scheduler.pressing;
        self.scheduler.started();
        let shared = Arc::clone(&self.shared);
        let tasks = self.tasks.clone();
        let cut = self.cut.clone();
        let done = self.claims.0.clone();
        self.tasks.spawn(async move {
            let claimed = claim_and_carry(shared, claim, permits, with_suspect, &tasks, &cut).await;
            if done.send(claimed).await.is_err() {
                debug!("the lane stopped during a claim");
            }
        });
    }

    fn claim(&self, limit: usize) -> Claim {
        Claim {
            channel: self.shared.channel,
            holder: self.shared.holder,
            lease: self.shared.lease,
            limit,
            held: self.shared.holdings.overdue(Instant::now()),
            since: self.scheduler.low_water,
            suspects: false,
        }
    }

    fn carry(&self, held: Held, permit: Permit) {
        let shared = Arc::clone(&self.shared);
        self.tasks
            .spawn(carry(shared, held, permit, self.cut.clone()));
    }

    /// When the oldest queued row stops being sendable.
    fn stale_at(&self) -> Option<Instant> {
        let head = self.head.as_ref()?;
        head.lease_end
            .checked_sub(self.shared.courier.send_window())
    }

    /// Lets go of queued rows whose lease no longer allows a send, permits or not.
    fn release_stale(&mut self) {
        let window = self.shared.courier.send_window();
        while let Some(held) = self.head.take() {
            if held.lease_left() > window {
                self.head = Some(held);
                return;
            }
            self.let_go(held);
            self.head = self.queue.try_recv().ok();
        }
    }

    fn release_all(&mut self) {
        self.queue.close();
        let head = self.head.take();
        for held in head
            .into_iter()
            .chain(std::iter::from_fn(|| self.queue.try_recv().ok()))
        {
            let_go(&self.shared, held);
        }
        self.shared.metrics.queue_depth(0);
    }

    fn let_go(&self, held: Held) {
        let_go(&self.shared, held);
    }
}

impl Scheduler {
    fn poll(&mut self) {
        self.low_water = Moment::DISTANT_PAST;
        self.press();
    }

    fn press(&mut self) {
        self.wanted = true;
        self.pressing = true;
    }

    fn started(&mut self) {
        self.wanted = false;
        self.pressing = false;
        self.claiming = true;
    }

    fn learn(&mut self, claimed: &Claimed) {
        self.claiming = false;
        self.wanted |= claimed.full;
        self.low_water = match claimed.low_water {
            Some(low_water) if claimed.full => low_water,
            _ => Moment::DISTANT_PAST,
        };
    }
}

async fn claim_and_carry(
    shared: Arc<LaneShared>,
    claim: Claim,
    mut permits: Vec<Permit>,
    with_suspect: bool,
    tasks: &TaskTracker,
    cut: &CancellationToken,
) -> Claimed {
    let nothing = Claimed {
        full: false,
        low_water: None,
    };
    let limit = claim.limit;
    if with_suspect && let Some(permit) = permits.pop() {
        match suspect(&shared, &claim).await {
            Some(held) => {
                let lane = Arc::clone(&shared);
                let cut = cut.clone();
                tasks.spawn(async move {
                    carry(Arc::clone(&lane), held, permit, cut).await;
                    lane.suspect_out.store(false, Ordering::Release);
                    lane.bell.notify_one();
                });
            }
            None => permits.push(permit),
        }
    }
    if permits.is_empty() {
        return Claimed {
            full: true,
            ..nothing
        };
    }
    let claim = Claim {
        limit: permits.len(),
        ..claim
    };
    let began = Instant::now();
    let rows = match shared.store.claim(claim).await {
        Ok(rows) => rows,
        Err(fault) => {
            warn!(%fault, channel = %shared.channel, "cannot claim due rows yet");
            return nothing;
        }
    };
    shared.metrics.polled();
    let claimed = Claimed {
        full: rows.len() == permits.len() && limit > 0,
        low_water: rows.iter().map(|row| row.due_since).max(),
    };
    let lease_end = began + shared.lease;
    for (row, permit) in rows.into_iter().zip(permits) {
        let held = shared.holdings.hold(row, lease_end);
        tasks.spawn(carry(Arc::clone(&shared), held, permit, cut.clone()));
    }
    claimed
}

/// Takes at most one row whose holders died on it before: if it kills this process too, it takes
/// no neighbour along.
async fn suspect(shared: &Arc<LaneShared>, claim: &Claim) -> Option<Held> {
    if shared.suspect_out.swap(true, Ordering::AcqRel) {
        return None;
    }
    let began = Instant::now();
    let claim = Claim {
        limit: 1,
        since: Moment::DISTANT_PAST,
        suspects: true,
        ..claim.clone()
    };
    let row = match shared.store.claim(claim).await {
        Ok(mut rows) => rows.pop(),
        Err(fault) => {
            warn!(%fault, channel = %shared.channel, "cannot claim suspect rows yet");
            None
        }
    };
    if row.is_none() {
        shared.suspect_out.store(false, Ordering::Release);
    }
    row.map(|row| shared.holdings.hold(row, began + shared.lease))
}

/// Carries one row to its outcome. When cut, the row keeps its lease and its holder's name: its
/// outcome is unknown, and whoever claims it next asks first.
async fn carry(shared: Arc<LaneShared>, held: Held, permit: Permit, cut: CancellationToken) {
    let delivery = AssertUnwindSafe(shared.courier.deliver(&held)).catch_unwind();
    let step = tokio::select! {
        biased;
        () = cut.cancelled() => return,
        step = delivery => step,
    };
    let settlement = match step {
        Ok(Step::Settle(settlement)) => Some(settlement),
        Ok(Step::Release) => None,
        Err(_) => Some(Box::new(panicked(&shared, &held))),
    };
    shared.metrics.delivered(settlement.as_deref());
    let job = Job {
        held,
        settlement,
        permit: Some(permit),
    };
    if shared.settlements.send(job).is_err() {
        error!("the settler is gone: the row heals when its lease ends");
    }
}

/// A panic fails its own message and nothing else; the request may have gone out.
fn panicked(shared: &LaneShared, held: &Held) -> crate::store::Settlement {
    error!(outbox.id = %held.row.id.0, "a delivery panicked: its outcome is unknown");
    let outcome = Outcome::Unknown {
        retry_after: None,
        answer: Answer {
            http_status: None,
            text: "the delivery panicked in this service".to_owned(),
        },
    };
    let timing = Timing {
        began_ago: Duration::ZERO,
        jitter: 1.0,
    };
    shared
        .courier
        .policy
        .after_send(&held.row, outcome, false, timing)
}

fn let_go(shared: &LaneShared, held: Held) {
    let job = Job {
        held,
        settlement: None,
        permit: None,
    };
    if shared.settlements.send(job).is_err() {
        error!("the settler is gone: the row heals when its lease ends");
    }
}
