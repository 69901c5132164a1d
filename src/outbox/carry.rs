//! What a lane's tasks do: claim, carry a row to its outcome, let it go.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use super::breaker::{Health, State};
use super::decision::Timing;
use super::delivery::{Courier, Step, Tried};
use super::gate::{Gate, Pass};
use super::held::{Held, Holdings};
use super::settler::{Job, Settlements};
use crate::fail_points::may_die_at;
use crate::metrics::LaneMetrics;
use crate::payment::Channel;
use crate::provider::{Answer, Outcome};
use crate::store::{Claim, Moment, Settlement, Store};

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
    /// What stands before the provider.
    pub gate: Gate,
    /// Rows in hand.
    pub holdings: Arc<Holdings>,
    /// The way to the settler.
    pub settlements: Settlements,
    /// What is told of the lane.
    pub metrics: Arc<LaneMetrics>,
    /// Rung when rows became due before the next poll.
    pub bell: Arc<Notify>,
    /// No new request begins once it is cancelled.
    pub stop: CancellationToken,
    /// A row whose holders kept dying is in flight: there is at most one.
    pub suspect_out: AtomicBool,
}

/// What a claim came to.
pub(super) struct Claimed {
    /// As many rows as were asked for: there may be more.
    pub full: bool,
    /// When the latest of them became due.
    pub low_water: Option<Moment>,
}

/// Claims rows for the permits given and starts carrying each.
pub(super) async fn claim_and_carry(
    shared: Arc<LaneShared>,
    claim: Claim,
    mut passes: Vec<Pass>,
    with_suspect: bool,
    tasks: &TaskTracker,
    cut: &CancellationToken,
) -> Claimed {
    let nothing = Claimed {
        full: false,
        low_water: None,
    };
    let limit = claim.limit;
    if with_suspect && let Some(pass) = passes.pop() {
        match suspect(&shared, &claim).await {
            Some(held) => {
                let lane = Arc::clone(&shared);
                let cut = cut.clone();
                tasks.spawn(async move {
                    carry(Arc::clone(&lane), held, pass, cut).await;
                    lane.suspect_out.store(false, Ordering::Release);
                    lane.bell.notify_one();
                });
            }
            None => passes.push(pass),
        }
    }
    if passes.is_empty() {
        return Claimed {
            full: true,
            ..nothing
        };
    }
    let claim = Claim {
        limit: passes.len(),
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
        full: rows.len() == passes.len() && limit > 0,
        low_water: rows.iter().map(|row| row.due_since).max(),
    };
    let lease_end = began + shared.lease;
    for (row, pass) in rows.into_iter().zip(passes) {
        may_die_at!("claimed");
        let held = shared.holdings.hold(row, lease_end);
        tasks.spawn(carry(Arc::clone(&shared), held, pass, cut.clone()));
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
pub(super) async fn carry(
    shared: Arc<LaneShared>,
    held: Held,
    mut pass: Pass,
    cut: CancellationToken,
) {
    if shared.stop.is_cancelled() {
        return let_go(&shared, held);
    }
    let delivery = AssertUnwindSafe(shared.courier.deliver(&held)).catch_unwind();
    let tried = tokio::select! {
        biased;
        () = cut.cancelled() => return,
        tried = delivery => tried,
    };
    let tried = tried.unwrap_or_else(|_| Tried {
        step: Step::Settle(Box::new(panicked(&shared, &held))),
        health: None,
    });
    if let Some(health) = tried.health {
        tell(&shared, pass.used(&shared.gate.breaker, health), health);
    }
    let settlement = match tried.step {
        Step::Settle(settlement) => Some(settlement),
        Step::Release => None,
    };
    shared.metrics.delivered(settlement.as_deref());
    let job = Job {
        held,
        settlement,
        permit: Some(pass.into_permit()),
    };
    if shared.settlements.send(job).is_err() {
        error!("the settler is gone: the row heals when its lease ends");
    }
}

/// A breaker that opens or closes is news for an operator.
fn tell(shared: &LaneShared, changed: Option<State>, health: Health) {
    let channel = shared.channel;
    match (changed, health) {
        (None | Some(State::Probing), _) => {}
        (Some(State::Closed), _) => info!(%channel, "the provider is well again"),
        (Some(State::Open), Health::Refusing) => {
            error!(%channel, "the provider refuses our set-up: trying now and then until it is mended");
        }
        (Some(State::Open), _) => {
            warn!(%channel, "the provider keeps failing: trying now and then")
        }
    }
}

/// A panic fails its own message and nothing else; the request may have gone out.
fn panicked(shared: &LaneShared, held: &Held) -> Settlement {
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

/// Lets go of a row whose request has not begun.
pub(super) fn let_go(shared: &LaneShared, held: Held) {
    let job = Job {
        held,
        settlement: None,
        permit: None,
    };
    if shared.settlements.send(job).is_err() {
        error!("the settler is gone: the row heals when its lease ends");
    }
}
