//! Commits payments: reserve a slot in each lane, commit what queued up as one transaction, and only
//! then send, which cannot fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::sync::oneshot;
use tracing::{Instrument, debug, error, info_span, warn};

use super::LaneDoor;
use super::breaker::State;
use super::held::Held;
use crate::fail_points::may_die_at;
use crate::metrics::Metrics;
use crate::payment::{Channel, Notification, PAYMENT_APPROVED, Payment};
use crate::store::{
    Birth, HeldRow, Id, Idempotency, Lease, Moment, NewPayment, Store, StoreError, Verdict,
};

/// Payments at most in one commit.
const BATCH: usize = 256;

/// Between two tries to commit while the database is away and callers still wait.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A payment on its way to the recorder.
pub struct Order {
    /// The payment.
    pub payment: Arc<Payment>,
    /// Set when the caller gave a key.
    pub idempotency: Option<Idempotency>,
    /// The answer to store.
    pub response: Bytes,
    /// Where the caller waits. Once it is gone, nobody needs the commit any more.
    pub reply: oneshot::Sender<Result<Verdict, StoreError>>,
}

/// The actor.
pub struct Recorder {
    store: Store,
    lease: Lease,
    lanes: Vec<LaneDoor>,
    metrics: Arc<Metrics>,
    orders: mpsc::Receiver<Order>,
}

/// An order with the slots that its rows will go through.
struct Member {
    order: Order,
    new: NewPayment,
    slots: Vec<Option<OwnedPermit<Held>>>,
}

impl Recorder {
    /// The actor, fed through `orders`.
    pub fn new(
        store: Store,
        lease: Lease,
        lanes: Vec<LaneDoor>,
        metrics: Arc<Metrics>,
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        Self {
            store,
            lease,
            lanes,
            metrics,
            orders,
        }
    }

    /// Runs until every way to it is dropped and everybody is answered. What queued up during one
    /// commit is the next: no timer, no added wait.
    pub async fn run(mut self) {
        let mut orders = Vec::with_capacity(BATCH);
        while self.orders.recv_many(&mut orders, BATCH).await > 0 {
            let mut members: Vec<Member> = orders
                .drain(..)
                .filter(|order| !order.reply.is_closed())
                .map(|order| self.reserve(order))
                .collect();
            // One order of locks for all instances.
            members.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
            let span = info_span!("commit", payments = members.len());
            self.commit(members, Instant::now()).instrument(span).await;
        }
    }

    fn reserve(&self, order: Order) -> Member {
        let (births, slots) = order
            .payment
            .notifications
            .iter()
            .map(|notification| self.birth(notification.channel))
            .unzip();
        let new = NewPayment {
            payment: Arc::clone(&order.payment),
            idempotency: order.idempotency.clone(),
            response: order.response.clone(),
            births,
        };
        Member { order, new, slots }
    }

    /// A slot in the lane makes a row born leased; a lane that is backed up leaves it to whichever
    /// instance's scheduler comes first.
    fn birth(&self, channel: Channel) -> (Birth, Option<OwnedPermit<Held>>) {
        let door = self.lanes.iter().find(|door| door.channel == channel);
        let slot = door
            .filter(|door| door.breaker.state() == State::Closed)
            .and_then(|door| door.queue.clone().try_reserve_owned().ok());
        let birth = Birth {
            provider: door.map_or("none", |door| door.provider),
            leased: slot.is_some(),
        };
        (birth, slot)
    }

    /// Repeats a batch whole while the fault is the database's and somebody still waits.
    ///
    /// `began` is from before the first try that could have created the rows: their leases are
    /// measured from it.
    async fn commit(&self, mut members: Vec<Member>, began: Instant) {
        loop {
            members.retain(|member| !member.order.reply.is_closed());
            if members.is_empty() {
                return;
            }
            let fault = match self.try_commit(&members).await {
                Ok(verdicts) => {
                    may_die_at!("committed");
                    return self.answer(members, verdicts, began);
                }
                Err(fault) => fault,
            };
            if fault.may_be_a_member() && members.len() > 1 {
                warn!(%fault, "a batch failed: committing its payments one by one");
                return self.commit_apart(members, began).await;
            }
            if fault.is_data() {
                return refuse(members, &fault);
            }
            warn!(%fault, "cannot commit yet");
            self.metrics.commit_failed();
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Each once, then those that failed again: one bad member costs its neighbours nothing.
    async fn commit_apart(&self, mut members: Vec<Member>, began: Instant) {
        while !members.is_empty() {
            let mut failed = Vec::new();
            for member in members {
                if member.order.reply.is_closed() {
                    continue;
                }
                let alone = vec![member];
                match self.try_commit(&alone).await {
                    Ok(verdicts) => self.answer(alone, verdicts, began),
                    Err(fault) if fault.is_data() => refuse(alone, &fault),
                    Err(fault) => {
                        warn!(%fault, "cannot commit a payment yet");
                        failed.extend(alone);
                    }
                }
            }
            members = failed;
            if !members.is_empty() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    async fn try_commit(&self, members: &[Member]) -> Result<Vec<Verdict>, StoreError> {
        let batch: Vec<NewPayment> = members.iter().map(|member| member.new.clone()).collect();
        self.store.record(Arc::new(batch), self.lease).await
    }

    fn answer(&self, members: Vec<Member>, verdicts: Vec<Verdict>, began: Instant) {
        let recorded = verdicts.iter().filter(|v| **v == Verdict::Recorded);
        self.metrics.committed(recorded.count());
        let lease_end = began + self.lease.length;
        for (member, verdict) in members.into_iter().zip(verdicts) {
            if verdict == Verdict::Recorded {
                self.send(&member.new, member.slots, lease_end);
            }
            if member.order.reply.send(Ok(verdict)).is_err() {
                debug!("the caller left before its answer; its key finds the payment");
            }
        }
    }

    fn send(&self, new: &NewPayment, slots: Vec<Option<OwnedPermit<Held>>>, lease_end: Instant) {
        for (notification, slot) in new.payment.notifications.iter().zip(slots) {
            let Some(door) = self
                .lanes
                .iter()
                .find(|door| door.channel == notification.channel)
            else {
                continue;
            };
            match slot {
                Some(slot) => {
                    let row = fresh(new, notification, door.provider);
                    slot.send(door.holdings.hold(row, lease_end));
                }
                None => door.bell.notify_one(),
            }
        }
    }
}

impl Member {
    fn sort_key(&self) -> (&str, Option<&str>) {
        let key = self.order.idempotency.as_ref().map(|i| i.key.as_str());
        (&self.order.payment.client, key)
    }
}

fn refuse(members: Vec<Member>, fault: &StoreError) {
    error!(%fault, "a payment cannot be recorded");
    for member in members {
        if member.order.reply.send(Err(fault.clone())).is_err() {
            debug!("the caller left before its answer");
        }
    }
}

/// The row as it was just committed, without reading it back.
fn fresh(new: &NewPayment, notification: &Notification, provider: &str) -> HeldRow {
    HeldRow {
        id: Id(notification.id),
        payment_id: Id(new.payment.id),
        event_type: PAYMENT_APPROVED.to_owned(),
        provider: provider.to_owned(),
        recipient: notification.recipient.as_str().to_owned(),
        payload: notification.payload.to_json(),
        reference: notification.id.to_string(),
        attempts: 0,
        deferrals: 0,
        lost_leases: 0,
        replays: 0,
        epoch: 1,
        maybe_sent: false,
        expired: false,
        due_since: Moment::DISTANT_PAST,
    }
}
