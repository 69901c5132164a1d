//! Writes outcomes in batches. What cannot be written is kept and written later; meanwhile each row
//! keeps its permit, so a dead database stops the sending.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, warn};
use uuid::Uuid;

use super::held::Held;
use super::permits::Permit;
use crate::metrics::Metrics;
use crate::payment::Status;
use crate::store::{Settlement, Standing, Store, StoreError};

/// Outcomes written at most in one transaction.
const BATCH: usize = 512;

/// Between two tries to write while the database is away.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

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
        };
        (settler, sender)
    }

    /// Runs until every way to it is dropped and everything is written.
    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.jobs.recv_many(&mut batch, BATCH).await > 0 {
            let (settles, releases): (Vec<_>, Vec<_>) =
                batch.drain(..).partition(|job| job.settlement.is_some());
            self.settle(settles).await;
            self.release(releases).await;
        }
    }

    async fn release(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let rows: Vec<(Uuid, i64)> = jobs
            .iter()
            .map(|job| (job.held.row.id.0, job.held.row.epoch))
            .collect();
        while let Err(fault) = self.store.release(self.holder, &rows).await {
            warn!(%fault, rows = rows.len(), "rows cannot be released yet");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn settle(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut settlements: Vec<Settlement> = jobs
            .iter()
            .filter_map(|job| job.settlement.as_deref().cloned())
            .collect();
        settlements.sort_unstable_by_key(|settlement| settlement.id);
        let settled = match self.write(Arc::new(settlements.clone())).await {
            Ok(settled) => settled,
            Err(fault) => self.write_apart(&fault, &settlements).await,
        };
        self.metrics.settled(settled.len());
        let lost: Vec<&Settlement> = settlements
            .iter()
            .filter(|settlement| !settled.contains(&settlement.id))
            .collect();
        if !lost.is_empty() {
            self.look_after(&jobs, &lost).await;
        }
    }

    /// Writes a batch, waiting out a database that is away.
    ///
    /// Returns an error only when the fault may lie with one member.
    async fn write(&self, batch: Arc<Vec<Settlement>>) -> Result<HashSet<Uuid>, StoreError> {
        loop {
            match self.store.settle(self.holder, Arc::clone(&batch)).await {
                Ok(settled) => return Ok(settled),
                Err(fault) if fault.may_be_a_member() => return Err(fault),
                Err(fault) => {
                    warn!(%fault, outcomes = batch.len(), "outcomes cannot be written yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// One bad member must not hold up its neighbours: each is written by itself.
    async fn write_apart(&self, fault: &StoreError, batch: &[Settlement]) -> HashSet<Uuid> {
        warn!(%fault, outcomes = batch.len(), "a batch of outcomes failed: writing them one by one");
        let mut settled = HashSet::new();
        for settlement in batch {
            settled.extend(self.write_one(settlement.clone()).await);
        }
        settled
    }

    async fn write_one(&self, mut settlement: Settlement) -> HashSet<Uuid> {
        loop {
            match self.write(Arc::new(vec![settlement.clone()])).await {
                Ok(settled) => return settled,
                Err(fault) if fault.is_data() && settlement.provider_message_id.is_some() => {
                    // An acceptance is a fact, even under an id that the provider gave twice.
                    error!(%fault, outbox.id = %settlement.id, "written without the provider's id");
                    settlement.provider_message_id = None;
                    settlement.last_error = Some("the provider gave its id twice".to_owned());
                }
                Err(fault) if fault.is_data() => {
                    error!(%fault, outbox.id = %settlement.id, "an outcome cannot be written");
                    return HashSet::new();
                }
                Err(fault) => {
                    warn!(%fault, outbox.id = %settlement.id, "an outcome cannot be written yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Outcomes that wrote nothing: ours of an earlier try whose answer was lost, or a lost lease.
    async fn look_after(&self, jobs: &[Job], unwritten: &[&Settlement]) {
        let ids: Vec<Uuid> = unwritten.iter().map(|settlement| settlement.id).collect();
        let standings = match self.store.standing(&ids).await {
            Ok(standings) => standings,
            Err(fault) => {
                warn!(%fault, "cannot see who took over {} rows", ids.len());
                return;
            }
        };
        for settlement in unwritten {
            let standing = standings.iter().find(|row| row.id.0 == settlement.id);
            if standing.is_some_and(|standing| is_ours(standing, settlement)) {
                continue;
            }
            self.metrics.lease_lost();
            warn!(
                outbox.id = %settlement.id,
                outcome = %settlement.status,
                "the lease was lost: the row belongs to another holder now"
            );
            let job = jobs.iter().find(|job| job.held.row.id.0 == settlement.id);
            if let (Some(job), true) = (job, standing.is_some()) {
                self.remember(job, settlement).await;
            }
        }
    }

    async fn remember(&self, job: &Job, settlement: &Settlement) {
        let remembered = self
            .store
            .remember_lost_lease(
                settlement.id,
                settlement.epoch,
                settlement.attempts,
                &job.held.row.provider,
            )
            .await;
        if let Err(fault) = remembered {
            warn!(%fault, outbox.id = %settlement.id, "the lost lease is not in the history");
        }
    }
}

fn is_ours(standing: &Standing, settlement: &Settlement) -> bool {
    let same_state = standing.status == settlement.status.as_str();
    let landed = standing.epoch == settlement.epoch && standing.claimed_by.is_none();
    // SENT twice is agreement, whoever wrote it.
    same_state && (landed || settlement.status == Status::Sent)
}
