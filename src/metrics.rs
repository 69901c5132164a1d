//! Figures for Prometheus. Every label comes from a closed set: no path, id or recipient.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::payment::{Channel, Status};
use crate::provider::LookUp;
use crate::store::{Settlement, Stats};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    provider: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabels {
    provider: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabels {
    channel: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RowLabels {
    channel: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

type Seconds = Family<ProviderLabels, Histogram, fn() -> Histogram>;

/// All figures of one process.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    outcomes: Family<OutcomeLabels, Counter>,
    look_ups: Family<OutcomeLabels, Counter>,
    provider_seconds: Seconds,
    payments_committed: Counter,
    commits_failed: Counter,
    outcomes_settled: Counter,
    leases_lost: Counter,
    rows: Family<RowLabels, Gauge>,
    due: Gauge,
    in_flight: Gauge,
    oldest_due: Gauge<f64, AtomicU64>,
    queue_depth: Family<ChannelLabels, Gauge>,
    permits_in_use: Family<ChannelLabels, Gauge>,
    breaker: Family<ChannelLabels, Gauge>,
    since_poll: Family<ChannelLabels, Gauge<f64, AtomicU64>>,
    lanes: Mutex<Vec<Arc<LaneMetrics>>>,
}

fn seconds() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

impl Metrics {
    /// Registers every figure.
    pub fn new() -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::with_prefix("paybell"),
            requests: Family::default(),
            outcomes: Family::default(),
            look_ups: Family::default(),
            provider_seconds: Seconds::new_with_constructor(seconds),
            payments_committed: Counter::default(),
            commits_failed: Counter::default(),
            outcomes_settled: Counter::default(),
            leases_lost: Counter::default(),
            rows: Family::default(),
            due: Gauge::default(),
            in_flight: Gauge::default(),
            oldest_due: Gauge::default(),
            queue_depth: Family::default(),
            permits_in_use: Family::default(),
            breaker: Family::default(),
            since_poll: Family::default(),
            lanes: Mutex::default(),
        };
        metrics.register();
        Arc::new(metrics)
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register(
            "http_requests",
            "Answers given over HTTP",
            self.requests.clone(),
        );
        r.register(
            "provider_outcomes",
            "Answers of providers to sends",
            self.outcomes.clone(),
        );
        r.register(
            "provider_look_ups",
            "Answers of providers to look-ups",
            self.look_ups.clone(),
        );
        r.register(
            "provider_request_seconds",
            "Time from the start of a send to its outcome",
            self.provider_seconds.clone(),
        );
        r.register(
            "payments_committed",
            "Payments committed, repeats not counted",
            self.payments_committed.clone(),
        );
        r.register(
            "commits_failed",
            "Commits that had to be repeated",
            self.commits_failed.clone(),
        );
        r.register(
            "outcomes_settled",
            "Outcomes written",
            self.outcomes_settled.clone(),
        );
        r.register(
            "leases_lost",
            "Outcomes that came after another holder took over",
            self.leases_lost.clone(),
        );
        r.register("outbox_rows", "Rows in the outbox", self.rows.clone());
        r.register(
            "outbox_due",
            "Rows that may be claimed now",
            self.due.clone(),
        );
        r.register(
            "outbox_in_flight",
            "Rows under a live lease, of all instances",
            self.in_flight.clone(),
        );
        r.register(
            "outbox_oldest_due_seconds",
            "Age of the longest-due row",
            self.oldest_due.clone(),
        );
        r.register(
            "lane_queue_depth",
            "Rows between commit and delivery",
            self.queue_depth.clone(),
        );
        r.register(
            "lane_permits_in_use",
            "Requests out, or their outcome unwritten",
            self.permits_in_use.clone(),
        );
        r.register(
            "lane_breaker",
            "0 closed, 1 a probe is out, 2 open",
            self.breaker.clone(),
        );
        r.register(
            "lane_seconds_since_last_poll",
            "Time since the scheduler last asked the database successfully",
            self.since_poll.clone(),
        );
    }

    /// Adds a lane.
    pub fn lane(&self, channel: Channel) -> Arc<LaneMetrics> {
        let lane = Arc::new(LaneMetrics {
            channel,
            permits_in_use: AtomicI64::new(0),
            breaker: AtomicI64::new(0),
            depth: AtomicI64::new(0),
            last_poll: Mutex::new(Instant::now()),
            last_turn: Mutex::new(Instant::now()),
            trouble: Mutex::default(),
        });
        lock(&self.lanes).push(Arc::clone(&lane));
        lane
    }

    /// An HTTP request was answered; `route` is the pattern, not the path.
    pub fn request(&self, method: &'static str, route: &'static str, status: u16) {
        let labels = RequestLabels {
            method,
            route,
            status,
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// A provider answered a send.
    pub fn outcome(&self, provider: &'static str, outcome: &'static str, took: Duration) {
        self.outcomes
            .get_or_create(&OutcomeLabels { provider, outcome })
            .inc();
        self.provider_seconds
            .get_or_create(&ProviderLabels { provider })
            .observe(took.as_secs_f64());
    }

    /// A provider answered a look-up.
    pub fn look_up(&self, provider: &'static str, found: &LookUp) {
        let outcome = match found {
            LookUp::Found { .. } | LookUp::Candidates { .. } => "found",
            LookUp::NeverSeen => "never_seen",
            LookUp::Unsupported => "unsupported",
            LookUp::Failed { .. } => "failed",
        };
        self.look_ups
            .get_or_create(&OutcomeLabels { provider, outcome })
            .inc();
    }

    /// Payments were answered by a commit.
    pub fn committed(&self, payments: usize) {
        self.payments_committed
            .inc_by(u64::try_from(payments).unwrap_or(0));
    }

    /// A commit has to be repeated.
    pub fn commit_failed(&self) {
        self.commits_failed.inc();
    }

    /// Outcomes were written.
    pub fn settled(&self, rows: usize) {
        self.outcomes_settled
            .inc_by(u64::try_from(rows).unwrap_or(0));
    }

    /// An outcome came after another holder took over.
    pub fn lease_lost(&self) {
        self.leases_lost.inc();
    }

    /// Takes over what the database counted.
    pub fn observe(&self, stats: &Stats) {
        for channel in Channel::ALL {
            for status in Status::ALL {
                let rows = stats
                    .counts
                    .iter()
                    .filter(|c| c.channel == channel.as_str() && c.status == status.as_str())
                    .map(|count| count.rows)
                    .sum();
                let labels = RowLabels {
                    channel: channel.as_str(),
                    status: status.as_str(),
                };
                self.rows.get_or_create(&labels).set(rows);
            }
        }
        self.due.set(stats.due);
        self.in_flight.set(stats.in_flight);
        self.oldest_due
            .set(stats.oldest_due_age_seconds.unwrap_or(0.0));
    }

    /// The exposition text.
    ///
    /// # Errors
    /// Never in practice: writing into a string does not fail.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        for lane in lock(&self.lanes).iter() {
            let labels = ChannelLabels {
                channel: lane.channel.as_str(),
            };
            self.queue_depth
                .get_or_create(&labels)
                .set(lane.depth.load(Ordering::Relaxed));
            self.permits_in_use
                .get_or_create(&labels)
                .set(lane.permits_in_use.load(Ordering::Relaxed));
            self.breaker
                .get_or_create(&labels)
                .set(lane.breaker.load(Ordering::Relaxed));
            self.since_poll
                .get_or_create(&labels)
                .set(lane.since_last_poll().as_secs_f64());
        }
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// The figures of one lane.
#[derive(Debug)]
pub struct LaneMetrics {
    channel: Channel,
    permits_in_use: AtomicI64,
    breaker: AtomicI64,
    depth: AtomicI64,
    last_poll: Mutex<Instant>,
    last_turn: Mutex<Instant>,
    trouble: Mutex<Option<Trouble>>,
}

/// What goes wrong with a provider since its last acceptance.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// Bad outcomes in a row.
    pub failures: u64,
    /// The last one, masked.
    pub last_error: String,
}

impl LaneMetrics {
    /// Rows between commit and delivery.
    pub fn queue_depth(&self, rows: usize) {
        self.depth
            .store(i64::try_from(rows).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Permits taken, as of the lane's last turn.
    pub fn permits_in_use(&self, permits: usize) {
        self.permits_in_use.store(
            i64::try_from(permits).unwrap_or(i64::MAX),
            Ordering::Relaxed,
        );
    }

    /// The breaker's state: 0 closed, 1 probing, 2 open.
    pub fn breaker(&self, code: i64) {
        self.breaker.store(code, Ordering::Relaxed);
    }

    /// The scheduler asked the database, which answered.
    pub fn polled(&self) {
        *lock(&self.last_poll) = Instant::now();
    }

    /// The lane's loop turned.
    pub fn turned(&self) {
        *lock(&self.last_turn) = Instant::now();
    }

    /// Time since the lane's loop last turned.
    pub fn since_last_turn(&self) -> Duration {
        lock(&self.last_turn).elapsed()
    }

    /// Time since the scheduler last asked successfully.
    pub fn since_last_poll(&self) -> Duration {
        lock(&self.last_poll).elapsed()
    }

    /// A try ended; `None`: it was let go unsent.
    pub fn delivered(&self, settlement: Option<&Settlement>) {
        let Some(settlement) = settlement else { return };
        let mut trouble = lock(&self.trouble);
        match settlement.status {
            Status::Sent => *trouble = None,
            // A refused message says nothing about the provider's health.
            Status::Failed | Status::Canceled => {}
            Status::Pending => {
                let failures = trouble.as_ref().map_or(0, |trouble| trouble.failures);
                *trouble = Some(Trouble {
                    failures: failures + 1,
                    last_error: settlement.last_error.clone().unwrap_or_default(),
                });
            }
        }
    }

    /// What goes wrong since the last acceptance.
    pub fn trouble(&self) -> Option<Trouble> {
        lock(&self.trouble).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
