//! Writes outcomes in batches. What cannot be written is kept and written later; meanwhile each row
//! keeps its permit, so a dead database stops the sending.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::held::Held;
use super::permits::Permit;
use crate::fail_points::may_die_at;
use crate::metrics::Metrics;
use crate::payment::Status;
use crate::store::{Settlement, Standing, Store, StoreError};

/// Outcomes written at most in one transaction.
const BATCH: usize = 512;

/// Between two tries to write while the database is away.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Before a row asks again whose find another row took: the other is settled by then.
const ASK_AGAIN_IN: Duration = Duration::from_millis(200);

/// Something to write about a row; dropped, with its row and permit, once it is written.
#[derive(Debug)]
pub struct Job {
    /// The row.
    pub held: Held,
    /// What to write; `None` lets it go unsent.
    pub settlement: Option<Box<Settlement>>,
    /// The request's permit; a row that was never started has none.
    pub permit: Option<Permit>,
}

/// The way to the settler. Its queue needs no bound: rows in it hold permits or queue slots, which
/// are bounded.
pub type Settlements = mpsc::UnboundedSender<Job>;

/// The actor.
pub struct Settler {
    store: Store,
    holder: Uuid,
    metrics: Arc<Metrics>,
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Jobs that could not be written and are tried again with the next batch.
    kept: Vec<Job>,
    /// Jobs whose rows others hold locks on. They wait apart, so that nobody waits with them.
    locked: Vec<Job>,
}

impl Settler {
    /// The actor and the way to it.
    pub fn new(store: Store, holder: Uuid, metrics: Arc<Metrics>) -> (Self, Settlements) {
        let (sender, jobs) = mpsc::unbounded_channel();
        let settler = Self {
            store,
            holder,
            metrics,
            jobs,
            kept: Vec::new(),
            locked: Vec::new(),
        };
        (settler, sender)
    }

    /// Runs until every way to it is dropped and everything is written.
    pub async fn run(mut self) {
        while let Some(batch) = self.next_batch().await {
            let (settles, releases): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|job| job.settlement.is_some());
            self.settle(settles).await;
            self.release(releases).await;
        }
    }

    /// New jobs with those kept; after a failure not before a pause. `None` at the end.
    async fn next_batch(&mut self) -> Option<Vec<Job>> {
        let mut batch = Vec::with_capacity(BATCH);
        if self.kept.is_empty() && self.locked.is_empty() {
            let received = self.jobs.recv_many(&mut batch, BATCH).await;
            return (received > 0).then_some(batch);
        }
        if self.kept.is_empty() && !self.jobs.is_closed() {
            let received = self.jobs.recv_many(&mut batch, BATCH);
            // At its end the pause is over, or the last sender is gone.
            let _over = tokio::time::timeout(RETRY_PAUSE, received).await.is_err();
        } else {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        batch.append(&mut self.unlocked().await);
        batch.append(&mut self.kept);
        while batch.len() < BATCH {
            let Ok(job) = self.jobs.try_recv() else { break };
            batch.push(job);
        }
        Some(batch)
    }

    async fn release(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let rows: Vec<(Uuid, i64)> = jobs
            .iter()
            .map(|job| (job.held.row.id.0, job.held.row.epoch))
            .collect();
        match self.store.release(self.holder, &rows).await {
            Ok(()) => {}
            Err(fault) if fault.is_locked() => self.put_by_the_locked(jobs).await,
            Err(fault) => {
                warn!(%fault, rows = rows.len(), "rows cannot be released yet");
                self.kept.extend(jobs);
            }
        }
    }

    /// After a wait for a lock in vain: the locked rows wait apart, the others are tried again.
    async fn put_by_the_locked(&mut self, mut jobs: Vec<Job>) {
        if let Some(locked) = self.which_are_locked(&jobs).await {
            let is_locked = |job: &mut Job| locked.contains(&job.held.row.id.0);
            self.locked.extend(jobs.extract_if(.., is_locked));
            warn!(
                rows = self.locked.len(),
                "others hold locks on rows: written once they let go"
            );
        }
        self.kept.append(&mut jobs);
    }

    /// Those of the locked that are locked no more.
    async fn unlocked(&mut self) -> Vec<Job> {
        if self.locked.is_empty() {
            return Vec::new();
        }
        match self.which_are_locked(&self.locked).await {
            Some(locked) => {
                let is_free = |job: &mut Job| !locked.contains(&job.held.row.id.0);
                self.locked.extract_if(.., is_free).collect()
            }
            None => Vec::new(),
        }
    }

    async fn which_are_locked(&self, jobs: &[Job]) -> Option<HashSet<Uuid>> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.held.row.id.0).collect();
        let locked = self.store.locked(&ids).await;
        locked
            .inspect_err(
                |fault| warn!(%fault, rows = ids.len(), "cannot see which rows are locked"),
            )
            .ok()
    }

    async fn settle(&mut self, mut jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        jobs.sort_unstable_by_key(|job| job.held.row.id);
        match self.write(&jobs).await {
            Ok(settled) => {
                may_die_at!("settled");
                self.done(&jobs, &settled).await;
            }
            Err(fault) if fault.may_be_a_member() && jobs.len() > 1 => {
                // One bad member must not hold up its neighbours.
                warn!(%fault, outcomes = jobs.len(), "writing a batch of outcomes one by one");
                for job in jobs {
                    Box::pin(self.settle(vec![job])).await;
                }
            }
            Err(fault) if fault.is_locked() => self.put_by_the_locked(jobs).await,
            Err(fault) if fault.is_data() => self.write_what_fits(&fault, jobs).await,
            Err(fault) => {
                warn!(%fault, outcomes = jobs.len(), "outcomes cannot be written yet");
                self.kept.extend(jobs);
            }
        }
    }

    async fn write(&self, jobs: &[Job]) -> Result<HashSet<Uuid>, StoreError> {
        let settlements = jobs
            .iter()
            .filter_map(|job| job.settlement.as_deref().cloned())
            .collect();
        self.store.settle(self.holder, Arc::new(settlements)).await
    }

    async fn done(&self, jobs: &[Job], settled: &HashSet<Uuid>) {
        self.metrics.settled(settled.len());
        let unwritten: Vec<&Job> = jobs
            .iter()
            .filter(|job| !settled.contains(&job.held.row.id.0))
            .collect();
        if !unwritten.is_empty() {
            self.look_after(&unwritten).await;
        }
    }

    /// Another row holds the message that this outcome names.
    ///
    /// One that was found by its likeness is then not this row's: it asks again. So does a row
    /// whose own message was taken by a row that reads the same and looked for its own: nobody
    /// could tell the two messages apart, and this row is still owed one. Any other acceptance is
    /// a fact, even under an id that the provider gave twice: it is written without. Anything else
    /// that is refused heals when its lease ends.
    async fn write_what_fits(&mut self, fault: &StoreError, jobs: Vec<Job>) {
        for mut job in jobs {
            let taken_by_a_twin = match self.is_taken_by_a_twin(&job).await {
                Ok(taken) => taken,
                Err(fault) => {
                    warn!(%fault, outcomes = 1, "an outcome cannot be written yet");
                    self.kept.push(job);
                    continue;
                }
            };
            let id = job.held.row.id.0;
            match &mut job.settlement {
                Some(settlement) if settlement.by_likeness || taken_by_a_twin => {
                    info!(outbox.id = %id, "another row has the message: asking again");
                    **settlement = settlement.asked_again(ASK_AGAIN_IN);
                    self.kept.push(job);
                }
                Some(settlement) if settlement.provider_message_id.is_some() => {
                    error!(%fault, outbox.id = %id, "written without the provider's id");
                    settlement.provider_message_id = None;
                    settlement.last_error = Some("the provider gave its id twice".to_owned());
                    self.kept.push(job);
                }
                _ => error!(%fault, outbox.id = %id, "an outcome cannot be written"),
            }
        }
    }

    /// Whether the message that our own request was answered with went to a row that asked for its
    /// own meanwhile.
    async fn is_taken_by_a_twin(&self, job: &Job) -> Result<bool, StoreError> {
        let Some(settlement) = &job.settlement else {
            return Ok(false);
        };
        let Some(message_id) = &settlement.provider_message_id else {
            return Ok(false);
        };
        if settlement.was_found() {
            return Ok(false);
        }
        self.store.found_by_another(&job.held.row, message_id).await
    }

    /// Outcomes that wrote nothing: ours of an earlier try whose answer was lost, or a lost lease.
    async fn look_after(&self, unwritten: &[&Job]) {
        let ids: Vec<Uuid> = unwritten.iter().map(|job| job.held.row.id.0).collect();
        let standings = match self.store.standing(&ids).await {
            Ok(standings) => standings,
            Err(fault) => {
                warn!(%fault, "cannot see who took over {} rows", ids.len());
                return;
            }
        };
        for job in unwritten {
            let Some(settlement) = &job.settlement else {
                continue;
            };
            let standing = standings.iter().find(|row| row.id == job.held.row.id);
            if !standing.is_some_and(|standing| is_ours(standing, settlement)) {
                self.lease_lost(job, settlement, standing.is_some()).await;
            }
        }
    }

    async fn lease_lost(&self, job: &Job, settlement: &Settlement, row_is_there: bool) {
        self.metrics.lease_lost();
        let id = settlement.id;
        let outcome = settlement.status;
        warn!(outbox.id = %id, %outcome, "the lease was lost: the row belongs to another now");
        if !row_is_there {
            return;
        }
        let provider = &job.held.row.provider;
        let remembered = self
            .store
            .remember_lost_lease(id, settlement.epoch, settlement.attempts, provider)
            .await;
        if let Err(fault) = remembered {
            warn!(%fault, outbox.id = %id, "the lost lease is not in the history");
        }
    }
}

fn is_ours(standing: &Standing, settlement: &Settlement) -> bool {
    let same_state = standing.status == settlement.status.as_str();
    let landed = standing.epoch == settlement.epoch && standing.claimed_by.is_none();
    // SENT twice is agreement, whoever wrote it, unless it was sent as two messages: the late
    // acceptance of an earlier holder may have been written on our lease.
    let agreed = settlement.status == Status::Sent;
    same_state && (landed || agreed) && !is_another_message(standing, settlement)
}

/// Whether the row is known to be sent as one message and this outcome names another.
fn is_another_message(standing: &Standing, settlement: &Settlement) -> bool {
    match (
        &standing.provider_message_id,
        &settlement.provider_message_id,
    ) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    }
}
