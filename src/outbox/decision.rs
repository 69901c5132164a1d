//! The state machine: what follows for a row from what became of a try. Pure.

use std::time::Duration;

use super::backoff::Backoff;
use crate::payment::{Happening, Reason, Status};
use crate::provider::{Answer, LookUp, Outcome, RejectReason};
use crate::store::{HeldRow, HistoryEntry, Settlement};

/// From this many leases lost in a row on, the row itself is taken to kill its holder.
pub const CRASHED_AT: i32 = 5;

/// The rules that decisions follow.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// How waits grow.
    pub backoff: Backoff,
    /// Answers that were bad or missing before a row is given up.
    pub max_attempts: i32,
    /// A "never seen" counts only when asked this long after the request began.
    pub provider_timeout: Duration,
}

/// How a try went in time.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Since the request began.
    pub began_ago: Duration,
    /// In 0..1, spreads the waits.
    pub jitter: f64,
}

/// What to do with a row before anything is sent.
#[derive(Debug, PartialEq)]
pub enum Beginning {
    /// Ask the provider first: somebody may have sent it.
    Ask,
    /// Send it.
    Send,
    /// End it.
    End(Box<Settlement>),
}

/// What to do after the provider was asked.
#[derive(Debug, PartialEq)]
pub enum AfterLookUp {
    /// Send it; `known_unsent`: the provider never saw it.
    Send {
        /// The mark is cleared.
        known_unsent: bool,
    },
    /// Settle it.
    Settle(Box<Settlement>),
}

impl Policy {
    /// The first look at a row.
    pub fn begin(&self, row: &HeldRow) -> Beginning {
        if row.lost_leases >= CRASHED_AT {
            let text = format!(
                "the process died {} times in a row while it held this row",
                row.lost_leases
            );
            return Beginning::End(Box::new(self.failed(row, Reason::Crashed, text)));
        }
        if row.maybe_sent {
            return Beginning::Ask;
        }
        match self.end_of_budget(row) {
            Some(reason) => Beginning::End(Box::new(self.out_of_budget(row, reason))),
            None => Beginning::Send,
        }
    }

    /// What follows from a look-up. An end of the budget is judged after it: one last question.
    pub fn after_look_up(&self, row: &HeldRow, found: LookUp, timing: Timing) -> AfterLookUp {
        let end = self.end_of_budget(row);
        match (found, end) {
            (
                LookUp::Found {
                    provider_message_id,
                },
                _,
            ) => {
                let sent = self.sent(row, provider_message_id, Happening::FoundOnLookup, timing);
                AfterLookUp::Settle(Box::new(sent))
            }
            (
                LookUp::Candidates {
                    provider_message_ids,
                },
                _,
            ) => {
                let oldest = provider_message_ids.into_iter().next();
                let mut sent = self.sent(row, oldest, Happening::FoundOnLookup, timing);
                sent.by_likeness = true;
                AfterLookUp::Settle(Box::new(sent))
            }
            (LookUp::NeverSeen, None) => AfterLookUp::Send { known_unsent: true },
            (LookUp::NeverSeen, Some(reason)) => {
                let mut settlement = self.out_of_budget(row, reason);
                settlement.maybe_sent = false;
                AfterLookUp::Settle(Box::new(settlement))
            }
            (LookUp::Unsupported, None) => AfterLookUp::Send {
                known_unsent: false,
            },
            (LookUp::Unsupported, Some(_)) => {
                let text = "may have been sent; the provider cannot be asked".to_owned();
                AfterLookUp::Settle(Box::new(self.failed(row, Reason::OutcomeUnknown, text)))
            }
            (LookUp::Failed { answer }, end) => AfterLookUp::Settle(Box::new(self.unanswered(
                row,
                answer,
                end.is_some(),
                timing,
            ))),
        }
    }

    /// What follows from a send.
    pub fn after_send(
        &self,
        row: &HeldRow,
        outcome: Outcome,
        known_unsent: bool,
        timing: Timing,
    ) -> Settlement {
        let still_maybe = row.maybe_sent && !known_unsent;
        match outcome {
            Outcome::Accepted {
                provider_message_id,
            } => self.sent(row, provider_message_id, Happening::Accepted, timing),
            Outcome::Rejected { reason, answer } => {
                self.rejected(row, reason, answer, still_maybe, timing)
            }
            Outcome::Deferred {
                retry_after,
                answer,
            } => self.deferred(
                row,
                Happening::Deferred,
                retry_after,
                answer,
                still_maybe,
                timing,
            ),
            Outcome::Misconfigured { answer } => self.deferred(
                row,
                Happening::Misconfigured,
                None,
                answer,
                still_maybe,
                timing,
            ),
            Outcome::Unknown {
                retry_after,
                answer,
            } => self.unknown(row, retry_after, answer, timing),
        }
    }

    /// Known to be unsent, and too late in its lease to be sent: due again at once, at no cost.
    pub fn unsent(&self, row: &HeldRow) -> Settlement {
        Settlement {
            maybe_sent: false,
            ..unchanged(row)
        }
    }

    /// A row that this version cannot read.
    pub fn unreadable(&self, row: &HeldRow, text: String) -> Settlement {
        self.failed(row, Reason::Unreadable, text)
    }

    fn end_of_budget(&self, row: &HeldRow) -> Option<Reason> {
        if row.expired {
            Some(Reason::Expired)
        } else if row.attempts >= self.max_attempts {
            Some(Reason::AttemptsExhausted)
        } else {
            None
        }
    }

    fn sent(
        &self,
        row: &HeldRow,
        provider_message_id: Option<String>,
        how: Happening,
        timing: Timing,
    ) -> Settlement {
        // A question is not a request. What it found was counted when it went unanswered, unless its
        // holder died before it could count.
        let uncounted = how == Happening::Accepted || row.lost_leases > 0;
        let attempts = row.attempts.saturating_add(i32::from(uncounted));
        let at_first_try = attempts == 1 && row.deferrals == 0 && row.replays == 0;
        let history = (!at_first_try || how != Happening::Accepted || row.maybe_sent).then(|| {
            let mut entry = entry(row, how, attempts, Answer::default(), timing);
            entry.provider_message_id.clone_from(&provider_message_id);
            entry
        });
        Settlement {
            status: Status::Sent,
            attempts,
            maybe_sent: false,
            provider_message_id,
            history,
            ..unchanged(row)
        }
    }

    fn rejected(
        &self,
        row: &HeldRow,
        reason: RejectReason,
        answer: Answer,
        maybe_sent: bool,
        timing: Timing,
    ) -> Settlement {
        let attempts = row.attempts.saturating_add(1);
        Settlement {
            status: Status::Failed,
            reason: Some(match reason {
                RejectReason::Rejected => Reason::Rejected,
                RejectReason::RecipientUnreachable => Reason::RecipientUnreachable,
                RejectReason::RecipientOptedOut => Reason::RecipientOptedOut,
            }),
            attempts,
            maybe_sent,
            last_error: Some(answer.text.clone()),
            history: Some(entry(row, Happening::Rejected, attempts, answer, timing)),
            ..unchanged(row)
        }
    }

    fn deferred(
        &self,
        row: &HeldRow,
        how: Happening,
        hint: Option<Duration>,
        answer: Answer,
        maybe_sent: bool,
        timing: Timing,
    ) -> Settlement {
        let deferrals = row.deferrals.saturating_add(1);
        Settlement {
            deferrals,
            maybe_sent,
            delay: self.wait(row.attempts, deferrals, timing, hint),
            last_error: Some(answer.text.clone()),
            history: Some(entry(row, how, row.attempts, answer, timing)),
            ..unchanged(row)
        }
    }

    fn unknown(
        &self,
        row: &HeldRow,
        hint: Option<Duration>,
        answer: Answer,
        timing: Timing,
    ) -> Settlement {
        let attempts = row.attempts.saturating_add(1);
        // Also after the last attempt: the row comes back once more, to be asked about.
        let askable_in = self.provider_timeout.saturating_sub(timing.began_ago);
        Settlement {
            attempts,
            maybe_sent: true,
            delay: self
                .wait(attempts, row.deferrals, timing, hint)
                .max(askable_in),
            last_error: Some(answer.text.clone()),
            history: Some(entry(row, Happening::Unknown, attempts, answer, timing)),
            ..unchanged(row)
        }
    }

    /// The question itself was not answered: it costs an attempt and keeps the mark.
    fn unanswered(&self, row: &HeldRow, answer: Answer, last: bool, timing: Timing) -> Settlement {
        let attempts = row.attempts.saturating_add(1);
        let text = format!(
            "may have been sent; asking about it failed: {}",
            answer.text
        );
        let mut history = entry(row, Happening::Unknown, attempts, answer, timing);
        history.error = Some(text.clone());
        Settlement {
            status: if last {
                Status::Failed
            } else {
                Status::Pending
            },
            reason: last.then_some(Reason::OutcomeUnknown),
            attempts,
            maybe_sent: true,
            delay: self.wait(attempts, row.deferrals, timing, None),
            last_error: Some(text),
            history: Some(history),
            ..unchanged(row)
        }
    }

    fn out_of_budget(&self, row: &HeldRow, reason: Reason) -> Settlement {
        let text = match reason {
            Reason::Expired => "not accepted within the give-up time".to_owned(),
            _ => format!("not accepted in {} attempts", row.attempts),
        };
        self.failed(row, reason, text)
    }

    fn failed(&self, row: &HeldRow, reason: Reason, text: String) -> Settlement {
        Settlement {
            status: Status::Failed,
            reason: Some(reason),
            last_error: Some(text),
            ..unchanged(row)
        }
    }

    fn wait(
        &self,
        attempts: i32,
        deferrals: i32,
        timing: Timing,
        hint: Option<Duration>,
    ) -> Duration {
        let tries = u32::try_from(attempts.saturating_add(deferrals)).unwrap_or(0);
        self.backoff.wait(tries, timing.jitter, hint)
    }
}

fn unchanged(row: &HeldRow) -> Settlement {
    Settlement {
        id: row.id.0,
        epoch: row.epoch,
        replays: row.replays,
        status: Status::Pending,
        reason: None,
        attempts: row.attempts,
        deferrals: row.deferrals,
        maybe_sent: row.maybe_sent,
        delay: Duration::ZERO,
        last_error: None,
        provider_message_id: None,
        by_likeness: false,
        history: None,
    }
}

fn entry(
    row: &HeldRow,
    outcome: Happening,
    attempt: i32,
    answer: Answer,
    timing: Timing,
) -> HistoryEntry {
    HistoryEntry {
        outcome,
        attempt,
        started_ago: timing.began_ago,
        finished_ago: Duration::ZERO,
        http_status: answer.http_status.map(i32::from),
        error: (!answer.text.is_empty()).then_some(answer.text),
        provider: row.provider.clone(),
        provider_message_id: None,
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests;
