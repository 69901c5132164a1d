//! One row, one try: the corridor that both doors lead into. It neither knows nor cares whether the
//! row is fresh or was claimed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{Instrument, debug, error, info, info_span, warn};

use super::breaker::Health;
use super::decision::{AfterLookUp, Beginning, Policy, Timing};
use super::held::Held;
use crate::fail_points::may_die_at;
use crate::metrics::Metrics;
use crate::payment::{Payload, Recipient};
use crate::provider::{LOOK_UP_TIMEOUT, LookUp, Message, Outcome, Provider};
use crate::store::{HeldRow, Settlement, Store};

/// Spared at the end of a lease, for what comes between the last look at it and the last byte.
const TO_SPARE: Duration = Duration::from_secs(1);

/// What a try came to.
#[derive(Debug)]
pub struct Tried {
    /// What follows for the row.
    pub step: Step,
    /// What it says of the provider; `None` when nothing was asked of it.
    pub health: Option<Health>,
}

/// What follows for a row.
#[derive(Debug)]
pub enum Step {
    /// The outcome to write.
    Settle(Box<Settlement>),
    /// Too little is left of the lease: let go unsent.
    Release,
}

impl Step {
    /// Nothing was asked of the provider.
    fn unasked(self) -> Tried {
        Tried {
            step: self,
            health: None,
        }
    }

    /// The provider was asked.
    fn asked(self, health: Health) -> Tried {
        Tried {
            step: self,
            health: Some(health),
        }
    }
}

/// Carries rows of one lane to their provider.
pub struct Courier {
    /// Who is asked.
    pub provider: Arc<dyn Provider>,
    /// What follows from the answers.
    pub policy: Policy,
    /// Where outcomes are counted.
    pub metrics: Arc<Metrics>,
    /// Knows which messages of a provider other rows hold.
    pub store: Store,
}

impl Courier {
    /// Tries one row, and never twice.
    pub async fn deliver(&self, held: &Held) -> Tried {
        let span = info_span!(
            "delivery",
            payment.id = %held.row.payment_id.0,
            outbox.id = %held.row.id.0,
            attempt = held.row.attempts.saturating_add(1),
            provider = self.provider.name(),
        );
        self.step(held).instrument(span).await
    }

    /// Until when a row may be sent, counted back from the end of its lease.
    pub fn send_window(&self) -> Duration {
        self.policy.provider_timeout.saturating_add(TO_SPARE)
    }

    async fn step(&self, held: &Held) -> Tried {
        let row = &held.row;
        let message = match message(held) {
            Ok(message) => message,
            Err(fault) => {
                error!(%fault, "the row cannot be read");
                return settle(self.policy.unreadable(row, fault)).unasked();
            }
        };
        let known_unsent = match self.policy.begin(row) {
            Beginning::End(settlement) => return ended(settlement).unasked(),
            Beginning::Send => false,
            Beginning::Ask => match self.ask(held, &message).await {
                Ok(known_unsent) => known_unsent,
                Err(tried) => return tried,
            },
        };
        if held.lease_left() < self.send_window() {
            debug!("too little is left of the lease: let go unsent");
            return match known_unsent {
                // What was just learnt must not be asked again for ever.
                true => settle(self.policy.unsent(row)).asked(Health::Well),
                false => Step::Release.unasked(),
            };
        }
        self.send(row, &message, known_unsent).await
    }

    async fn ask(&self, held: &Held, message: &Message) -> Result<bool, Tried> {
        if held.lease_left() < LOOK_UP_TIMEOUT {
            return Err(Step::Release.unasked());
        }
        let began = Instant::now();
        // A row of a provider that is no longer configured cannot be asked about.
        let found = if held.row.provider == self.provider.name() {
            self.provider.look_up(message).await
        } else {
            LookUp::Unsupported
        };
        let found = self.without_those_taken(found).await?;
        self.metrics.look_up(self.provider.name(), &found);
        debug!(?found, "asked about an earlier request");
        let health = match &found {
            LookUp::Failed { .. } => Some(Health::Failing),
            LookUp::Found { .. } | LookUp::Candidates { .. } | LookUp::NeverSeen => {
                Some(Health::Well)
            }
            LookUp::Unsupported => None,
        };
        match self.policy.after_look_up(&held.row, found, timing(began)) {
            AfterLookUp::Send { known_unsent } => Ok(known_unsent),
            AfterLookUp::Settle(settlement) => Err(Tried {
                step: ended(settlement),
                health,
            }),
        }
    }

    /// A message that another row holds is not this row's. Two that ask at once may both be told of
    /// the same one: the unique index lets one of them have it, and the other asks again.
    async fn without_those_taken(&self, found: LookUp) -> Result<LookUp, Tried> {
        let LookUp::Candidates {
            mut provider_message_ids,
        } = found
        else {
            return Ok(found);
        };
        let name = self.provider.name();
        let taken = self
            .store
            .taken_message_ids(name, &provider_message_ids)
            .await
            .map_err(|fault| {
                warn!(%fault, "cannot see which messages other rows hold: let go unsent");
                Step::Release.asked(Health::Well)
            })?;
        provider_message_ids.retain(|id| !taken.contains(id));
        Ok(match provider_message_ids.is_empty() {
            true => LookUp::NeverSeen,
            false => LookUp::Candidates {
                provider_message_ids,
            },
        })
    }

    async fn send(&self, row: &HeldRow, message: &Message, known_unsent: bool) -> Tried {
        let began = Instant::now();
        let outcome = self.provider.send(message).await;
        if matches!(outcome, Outcome::Accepted { .. }) {
            may_die_at!("accepted");
        }
        if row.attempts.saturating_add(1) >= self.policy.max_attempts {
            may_die_at!("last-attempt");
        }
        self.metrics
            .outcome(self.provider.name(), outcome.label(), began.elapsed());
        report(&outcome);
        let health = health(&outcome);
        let settlement = self
            .policy
            .after_send(row, outcome, known_unsent, timing(began));
        settle(settlement).asked(health)
    }
}

/// An answer about the message says that the provider is well, whatever it says.
fn health(outcome: &Outcome) -> Health {
    match outcome {
        Outcome::Accepted { .. } | Outcome::Rejected { .. } => Health::Well,
        Outcome::Deferred { .. } | Outcome::Unknown { .. } => Health::Failing,
        Outcome::Misconfigured { .. } => Health::Refusing,
    }
}

fn settle(settlement: Settlement) -> Step {
    Step::Settle(Box::new(settlement))
}

fn ended(settlement: Box<Settlement>) -> Step {
    if let Some(reason) = settlement.reason {
        warn!(reason = reason.as_str(), "given up");
    }
    Step::Settle(settlement)
}

fn timing(began: Instant) -> Timing {
    Timing {
        began_ago: began.elapsed(),
        jitter: fastrand::f64(),
    }
}

fn message(held: &Held) -> Result<Message, String> {
    let row = &held.row;
    if row.recipient.is_empty() {
        return Err("it has no recipient".to_owned());
    }
    // serde's own text may quote the payload: only the place is told.
    let payload: Payload = serde_json::from_str(&row.payload).map_err(|error| {
        format!(
            "its payload cannot be read: line {}, column {} is not what version {} writes",
            error.line(),
            error.column(),
            crate::payment::PAYLOAD_VERSION
        )
    })?;
    Ok(Message {
        outbox_id: row.id.0,
        payment_id: row.payment_id.0,
        event_type: row.event_type.as_str().into(),
        reference: row.reference.as_str().into(),
        recipient: Recipient::stored(row.recipient.clone()),
        payload: Arc::new(payload),
        deadline: held.lease_end - TO_SPARE,
    })
}

fn report(outcome: &Outcome) {
    match outcome {
        Outcome::Accepted { .. } => debug!("accepted"),
        Outcome::Rejected { answer, .. } => {
            info!(http.status = answer.http_status, error = %answer.text, "rejected for good");
        }
        Outcome::Deferred { answer, .. } => {
            info!(http.status = answer.http_status, error = %answer.text, "deferred");
        }
        Outcome::Misconfigured { answer } => {
            error!(
                http.status = answer.http_status,
                error = %answer.text,
                "the provider refuses our set-up: check its credentials and account"
            );
        }
        Outcome::Unknown { answer, .. } => {
            warn!(http.status = answer.http_status, error = %answer.text, "outcome unknown");
        }
    }
}
