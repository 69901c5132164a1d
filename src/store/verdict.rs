//! Tells a repeat from a new payment, the same way for both databases.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use diesel::prelude::*;
use diesel::result::Error;

use super::rows::{NewPayment, Verdict};
use super::schema::payments;
use super::sql_types::Id;

/// What is stored about a payment that an INSERT did not take.
#[derive(Debug, Queryable)]
pub struct Known {
    id: Id,
    client: String,
    idempotency_key: Option<String>,
    fingerprint: Option<Vec<u8>>,
    response: Vec<u8>,
}

/// What a [`Known`] is read from.
pub type KnownColumns = (
    payments::id,
    payments::client,
    payments::idempotency_key,
    payments::fingerprint,
    payments::response,
);

impl Known {
    /// The columns that a [`Known`] is read from.
    pub fn columns() -> KnownColumns {
        (
            payments::id,
            payments::client,
            payments::idempotency_key,
            payments::fingerprint,
            payments::response,
        )
    }
}

/// The verdicts of a batch, while they are being found.
pub struct Verdicts<'a> {
    batch: &'a [NewPayment],
    recorded: HashSet<Id>,
    replays: HashMap<(String, String), Known>,
}

impl<'a> Verdicts<'a> {
    /// Begins with the payments that the INSERT took.
    pub fn new(batch: &'a [NewPayment], recorded: impl IntoIterator<Item = Id>) -> Self {
        Self {
            batch,
            recorded: recorded.into_iter().collect(),
            replays: HashMap::new(),
        }
    }

    /// The payments that it did not take.
    pub fn missing(&self) -> Vec<&'a NewPayment> {
        self.batch
            .iter()
            .filter(|new| !self.recorded.contains(&Id(new.payment.id)))
            .collect()
    }

    /// Adds what is stored under their ids and keys.
    pub fn learn(&mut self, known: Vec<Known>) {
        for found in known {
            // Under our own id it is our own earlier try, whose answer was lost on the way.
            if self.batch.iter().any(|new| Id(new.payment.id) == found.id) {
                self.recorded.insert(found.id);
            }
            if let Some(key) = found.idempotency_key.clone() {
                self.replays.insert((found.client.clone(), key), found);
            }
        }
    }

    /// One verdict a payment, in the batch's order.
    ///
    /// # Errors
    /// [`diesel::result::Error::NotFound`] for a payment that is neither new nor known, so that
    /// nobody is promised a delivery on a guess.
    pub fn finish(self) -> QueryResult<Vec<Verdict>> {
        self.batch.iter().map(|new| self.of(new)).collect()
    }

    fn of(&self, new: &NewPayment) -> QueryResult<Verdict> {
        if self.recorded.contains(&Id(new.payment.id)) {
            return Ok(Verdict::Recorded);
        }
        let idempotency = new.idempotency.as_ref().ok_or(Error::NotFound)?;
        let scope = (new.payment.client.clone(), idempotency.key.clone());
        let known = self.replays.get(&scope).ok_or(Error::NotFound)?;
        if known.fingerprint.as_deref() == Some(&idempotency.fingerprint[..]) {
            Ok(Verdict::Replayed(Bytes::from(known.response.clone())))
        } else {
            Ok(Verdict::KeyReused)
        }
    }
}
