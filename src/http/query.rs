//! Reads query strings strictly: a parameter that is misspelled must not silently filter nothing.

use std::collections::BTreeMap;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::cursor;
use super::problem::Problem;
use crate::payment::{Channel, Status};
use crate::store::OutboxFilter;

/// Rows on a page when the caller does not say.
const DEFAULT_LIMIT: i64 = 50;
/// Rows on a page at most.
const MAX_LIMIT: i64 = 500;

/// The parameters of a query string, each at most once.
#[derive(Debug, Default)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads a query string that may hold the parameters of `known`.
    ///
    /// # Errors
    /// [`Problem::BadParameter`] for an unknown or a repeated one.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, Problem> {
        let mut found = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let detail = format!("is not known here: use one of {}", known.join(", "));
                return Err(bad(&name, detail));
            }
            if found.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(bad(&name, "is given twice"));
            }
        }
        Ok(Self(found))
    }

    /// The parameters of a filter given as fields of a JSON body.
    pub fn from_fields(fields: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Self {
        Self(
            fields
                .into_iter()
                .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
                .collect(),
        )
    }

    /// A parameter as it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        rule: &'static str,
    ) -> Result<Option<T>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => parse(text).map(Some).ok_or_else(|| bad(name, rule)),
        }
    }

    /// `limit`, within its bounds.
    ///
    /// # Errors
    /// [`Problem::BadParameter`] outside of them.
    pub fn limit(&self) -> Result<i64, Problem> {
        let parse = |text: &str| {
            i64::from_str(text)
                .ok()
                .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        };
        let limit = self.parsed("limit", parse, "must be a whole number from 1 to 500")?;
        Ok(limit.unwrap_or(DEFAULT_LIMIT))
    }

    /// `cursor`, decoded.
    ///
    /// # Errors
    /// [`Problem::BadParameter`] for one that was made up.
    pub fn cursor(&self) -> Result<Option<Uuid>, Problem> {
        self.text("cursor").map(cursor::decode).transpose()
    }

    /// The outbox filters.
    ///
    /// # Errors
    /// [`Problem::BadParameter`] for a value that cannot be understood.
    pub fn outbox_filter(&self) -> Result<OutboxFilter, Problem> {
        let moment = "must be an RFC 3339 time, for example 2026-11-30T12:00:00Z";
        Ok(OutboxFilter {
            statuses: self
                .parsed(
                    "status",
                    statuses,
                    "must be PENDING, SENT, FAILED or CANCELED, or several with commas between",
                )?
                .unwrap_or_default(),
            channel: self.parsed(
                "channel",
                |text| Channel::from_str(text).ok(),
                "must be sms or fcm",
            )?,
            event_type: self.parsed("event_type", label, "must be 1 to 128 visible characters")?,
            payment_id: self.parsed("payment_id", uuid, "must be a payment's id")?,
            order_id: self.parsed("order_id", label, "must be 1 to 128 characters")?,
            created_from: self.parsed("created_from", rfc3339, moment)?,
            created_to: self.parsed("created_to", rfc3339, moment)?,
        })
    }
}

/// Names of the outbox filters.
pub const OUTBOX_FILTERS: [&str; 7] = [
    "status",
    "channel",
    "event_type",
    "payment_id",
    "order_id",
    "created_from",
    "created_to",
];

fn statuses(text: &str) -> Option<Vec<Status>> {
    text.split(',').map(Status::parse).collect()
}

/// A label or order id: PostgreSQL knows no NUL, and nobody has one longer.
pub fn label(text: &str) -> Option<String> {
    let fits = (1..=128).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}

/// An id in its usual form.
pub fn uuid(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|_| text.len() == 36)
}

fn rfc3339(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|moment| moment.to_utc())
}

fn bad(name: &str, detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    let name: String = name.chars().take(64).filter(|c| !c.is_control()).collect();
    Problem::BadParameter {
        name: name.into(),
        detail: detail.into(),
    }
}
