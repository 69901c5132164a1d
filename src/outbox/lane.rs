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

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::carry::{Claimed, LaneShared, carry, claim_and_carry, let_go};
use super::gate::{Knock, Pass};
use super::held::Held;
use super::permits::Door;
use super::throttle::Throttle;
use crate::store::{Claim, Moment};

/// The loop.
pub struct Lane {
    shared: Arc<LaneShared>,
    queue: mpsc::Receiver<Held>,
    head: Option<Held>,
    /// Which door knocks first: not the one that was let in last while the other waited, or a
    /// throttle's every token would go to one of them.
    first: Door,
    /// When the gate lets somebody through again, if it told.
    turn_at: Option<Instant>,
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
            first: Door::Fast,
            turn_at: None,
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

    /// What fills its throttle.
    pub fn throttle(&self) -> Throttle {
        self.shared.gate.throttle.clone()
    }

    /// Runs until told to stop; then lets go of what it has not begun to send.
    pub async fn run(mut self) {
        let stop = self.shared.stop.clone();
        let mut polls = interval(self.poll_interval);
        // After a pause one poll is enough, not one for each that was missed.
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            self.release_stale();
            self.turn_at = None;
            match self.first {
                Door::Fast => {
                    self.start_fresh();
                    self.start_claim();
                }
                Door::Due => {
                    self.start_claim();
                    self.start_fresh();
                }
            }
            self.show();
            let turn_at = self.stale_at().into_iter().chain(self.turn_at).min();
            tokio::select! {
                () = stop.cancelled() => {}
                held = self.queue.recv(), if self.head.is_none() => match held {
                    Some(held) => self.head = Some(held),
                    None => stop.cancelled().await,
                },
                () = self.shared.gate.permits.freed.notified() => {}
                Some(claimed) = self.claims.1.recv() => self.scheduler.learn(&claimed),
                _ = polls.tick() => {
                    self.shared.metrics.turned();
                    self.scheduler.poll();
                }
                () = self.shared.bell.notified() => self.scheduler.press(),
                () = sleep_until(turn_at.unwrap_or_else(Instant::now).into()),
                    if turn_at.is_some() => {}
            }
        }
        self.release_all();
    }

    /// Starts fresh rows while the gate lets them through.
    fn start_fresh(&mut self) {
        loop {
            if self.head.is_none() {
                self.head = self.queue.try_recv().ok();
            }
            if self.head.is_none() {
                return;
            }
            let due_waits = self.scheduler.wanted && !self.scheduler.claiming;
            let Some(pass) = self.knock(Door::Fast, 1, 1, due_waits).pop() else {
                return;
            };
            if let Some(held) = self.head.take() {
                self.carry(held, pass);
            }
            if due_waits {
                self.first = Door::Due;
            }
        }
    }

    /// Starts a claim for as many rows as the gate lets through.
    fn start_claim(&mut self) {
        if !self.scheduler.wanted || self.scheduler.claiming {
            return;
        }
        let wanted = self.batch_size.min(self.shared.gate.permits.max());
        let least = if self.scheduler.pressing {
            1
        } else {
            wanted.div_ceil(2)
        };
        let fresh_waits = self.head.is_some();
        let passes = self.knock(Door::Due, wanted, least, fresh_waits);
        if passes.is_empty() {
            return;
        }
        self.first = Door::Fast;
        let claim = self.claim(passes.len());
        let with_suspect = self.scheduler.pressing;
        self.scheduler.started();
        let shared = Arc::clone(&self.shared);
        let tasks = self.tasks.clone();
        let cut = self.cut.clone();
        let done = self.claims.0.clone();
        self.tasks.spawn(async move {
            let claimed = claim_and_carry(shared, claim, passes, with_suspect, &tasks, &cut).await;
            if done.send(claimed).await.is_err() {
                debug!("the lane stopped during a claim");
            }
        });
    }

    fn knock(&mut self, door: Door, wanted: usize, least: usize, other_waits: bool) -> Vec<Pass> {
        match self.shared.gate.knock(door, wanted, least, other_waits) {
            Knock::Passes(passes) => passes,
            Knock::Later => Vec::new(),
            Knock::NotBefore(moment) => {
                self.turn_at = self.turn_at.into_iter().chain([moment]).min();
                Vec::new()
            }
        }
    }

    fn show(&self) {
        let metrics = &self.shared.metrics;
        metrics.queue_depth(self.queue.len() + usize::from(self.head.is_some()));
        metrics.permits_in_use(self.shared.gate.permits.in_use());
        metrics.breaker(self.shared.gate.breaker.state().code());
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

    fn carry(&self, held: Held, pass: Pass) {
        let shared = Arc::clone(&self.shared);
        self.tasks
            .spawn(carry(shared, held, pass, self.cut.clone()));
    }

    /// When the oldest queued row stops being sendable.
    fn stale_at(&self) -> Option<Instant> {
        let head = self.head.as_ref()?;
        head.lease_end
            .checked_sub(self.shared.courier.send_window())
    }

    /// Lets go of queued rows whose lease no longer allows a send, passes or not; and of all of them
    /// while the breaker is open, since no lease is held while waiting for it.
    fn release_stale(&mut self) {
        let window = self.shared.courier.send_window();
        let all = self.shared.gate.is_closed_to_fresh_rows();
        while let Some(held) = self.head.take().or_else(|| self.queue.try_recv().ok()) {
            if !all && held.lease_left() > window {
                self.head = Some(held);
                return;
            }
            let_go(&self.shared, held);
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
        self.show();
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
