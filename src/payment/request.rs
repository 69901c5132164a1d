//! From the bytes of a POST to a request that cannot be wrong.
//!
//! All faults of a request are found at once, each at its JSON pointer. The JSON is read through
//! raw values, because a typed reader can tell neither `1e3` from an integer nor that a field was
//! given twice, and stops at the first fault.

mod faults;
mod fields;
mod fingerprint;
mod json;
mod notification;

use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

pub use faults::{Fault, Faults};
pub use notification::{MAX_NOTIFICATIONS, NotificationRequest};

use super::sms_text::SmsText;
use super::text::{self, Event, PaymentFacts};
use super::{Channel, Currency, Locale, Notification, Payload, Payment};
use crate::payment::recipient::Region;
use faults::Pointer;

/// The largest amount taken: 2^53 - 1, the last integer that every JSON reader keeps exact.
pub const MAX_AMOUNT: i64 = 9_007_199_254_740_991;

/// What of the configuration decides whether a request is valid.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Where a phone number without a country code is read.
    pub region: Region,
    /// The language of messages whose locale has no texts.
    pub default_locale: Locale,
    /// The channels that have a provider.
    pub channels: Vec<Channel>,
    /// What the provider of text messages can carry.
    pub sms_text: SmsText,
}

/// A valid payment request.
#[derive(Clone, PartialEq, Eq)]
pub struct PaymentRequest {
    /// The caller's own reference, 1..=128 characters.
    pub order_id: String,
    /// Amount in the currency's minor unit, 1..=[`MAX_AMOUNT`].
    pub amount: i64,
    /// Currency of the amount.
    pub currency: Currency,
    /// The caller's free text, at most 500 characters.
    pub description: Option<String>,
    /// The BCP 47 tag as it was given.
    pub locale: Option<String>,
    /// The language that the tag, or else the configuration, asks for.
    pub text_locale: Locale,
    /// 1..=20 notifications, no two to the same recipient over the same channel.
    pub notifications: Vec<NotificationRequest>,
    /// SHA-256 of the request's canonical form: two requests of the same meaning have the same,
    /// however they are spelled.
    pub fingerprint: [u8; 32],
}

/// Reads and checks a request.
///
/// A field that is `null` counts as left out.
///
/// # Errors
/// [`Faults`]: all of them, in the order of the contract's fields.
pub fn parse(body: &[u8], rules: &Rules) -> Result<PaymentRequest, Faults> {
    let mut faults = Faults::default();
    let request = read(body, rules, &mut faults);
    match request {
        Some(request) if faults.is_empty() => Ok(request),
        _ => Err(faults),
    }
}

/// `None` only when a fault was noted.
fn read(body: &[u8], rules: &Rules, faults: &mut Faults) -> Option<PaymentRequest> {
    let root = json::document(body, faults)?;
    let mut object = json::Object::read(root, Pointer::root(), faults)?;
    let order_id = fields::order_id(&mut object, faults);
    let amount = fields::amount(&mut object, faults);
    let currency = fields::currency(&mut object, faults);
    let description = fields::description(&mut object, faults);
    let locale = fields::locale(&mut object, faults);
    let drafts = notification::read_all(&mut object, rules, faults);
    object.refuse_unknown(
        "order_id, amount, currency, description, locale, notifications",
        faults,
    );

    let (order_id, amount, currency) = (order_id?, amount?, currency?);
    let (description, locale) = (description?, locale?);
    let drafts = drafts.into_iter().collect::<Option<Vec<_>>>()?;
    let fingerprint = fingerprint::Canonical {
        amount,
        currency: currency.code(),
        description: description.as_deref(),
        locale: locale.as_deref(),
        notifications: drafts.iter().map(|draft| draft.canonical()).collect(),
        order_id: &order_id,
    }
    .fingerprint();
    let request = PaymentRequest {
        text_locale: fields::text_locale(locale.as_deref(), rules.default_locale),
        description: description.as_deref().map(fields::unify_newlines),
        order_id,
        amount,
        currency,
        locale,
        notifications: drafts
            .into_iter()
            .map(notification::Draft::into_request)
            .collect(),
        fingerprint,
    };
    notification::check_rendered(&request, rules, faults);
    Some(request)
}

impl PaymentRequest {
    /// What the templates may speak of.
    fn facts(&self) -> PaymentFacts<'_> {
        PaymentFacts {
            order_id: &self.order_id,
            amount: self.amount,
            currency: self.currency,
            description: self.description.as_deref(),
        }
    }

    /// The payment, with every message's words fixed for good.
    ///
    /// A body that was left out comes from the templates; so does the title of a push, while an
    /// SMS only has a title when one was given.
    pub fn approve(
        mut self,
        client: &str,
        id: Uuid,
        created_at: DateTime<Utc>,
        mut notification_ids: impl FnMut() -> Uuid,
    ) -> Payment {
        let wanted = std::mem::take(&mut self.notifications);
        let facts = self.facts();
        let locale = self.text_locale;
        let notifications = wanted
            .into_iter()
            .map(|wanted| Notification {
                id: notification_ids(),
                channel: wanted.channel,
                recipient: wanted.recipient.clone(),
                payload: payload(wanted, locale, &facts),
            })
            .collect();
        Payment {
            id,
            client: client.to_owned(),
            amount: self.amount,
            currency: self.currency,
            notifications,
            order_id: self.order_id,
            description: self.description,
            locale: self.locale,
            created_at,
        }
    }
}

/// The words given, completed by the templates.
fn payload(wanted: NotificationRequest, locale: Locale, facts: &PaymentFacts<'_>) -> Payload {
    let default = text::render(Event::PaymentApproved, wanted.channel, locale, facts);
    Payload {
        title: wanted.title.or(default.title),
        body: wanted.body.unwrap_or(default.body),
        data: wanted.data,
    }
}

impl fmt::Debug for PaymentRequest {
    /// The caller's free text may be personal: only its size is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaymentRequest")
            .field("order_id", &self.order_id)
            .field("amount", &self.amount)
            .field("currency", &self.currency)
            .field(
                "description_bytes",
                &self.description.as_ref().map(String::len),
            )
            .field("locale", &self.locale)
            .field("notifications", &self.notifications)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
