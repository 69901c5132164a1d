//! The domain: a payment, its money, whom to tell and in which words.
//!
//! Everything here is pure: no database, no network, no clock. What comes in is parsed once
//! ([`request::parse`]) into types that cannot hold a wrong value; the rest of the program never
//! validates again.

pub mod currency;
pub mod recipient;
pub mod request;
pub mod sms_text;
pub mod status;
pub mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use currency::Currency;
pub use recipient::Recipient;
pub use status::{Happening, Reason, Status};

/// The event that every row is recorded for today.
pub const PAYMENT_APPROVED: &str = "PAYMENT_APPROVED";

/// The shape of [`Payload`] that this version writes, and the newest that it reads.
pub const PAYLOAD_VERSION: i32 = 1;

/// How a notification reaches its recipient. Each channel has its own lane and provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// A text message to a phone.
    Sms,
    /// A push notification through Firebase Cloud Messaging.
    Fcm,
}

impl Channel {
    /// Every channel, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::Sms, Self::Fcm];

    /// The name used in JSON, in the database and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sms => "sms",
            Self::Fcm => "fcm",
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A channel name that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown channel {0:?}: use \"sms\" or \"fcm\"")]
pub struct UnknownChannel(pub String);

impl FromStr for Channel {
    type Err = UnknownChannel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|channel| channel.as_str() == name)
            .ok_or_else(|| UnknownChannel(name.to_owned()))
    }
}

/// A language that the message templates exist in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Locale {
    /// Korean.
    Ko,
    /// English.
    En,
}

impl Locale {
    /// The primary language subtag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ko => "ko",
            Self::En => "en",
        }
    }
}

/// What a provider is asked to send, fixed when the payment is recorded: the body of the last
/// attempt is the body of the first, byte for byte.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Title of a push, or subject of a long SMS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text.
    pub body: String,
    /// Custom key-value pairs of a push; empty for SMS.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}

impl Payload {
    /// The JSON that is stored, and from which every attempt is built.
    pub fn to_json(&self) -> String {
        // Strings and a map of strings always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Debug for Payload {
    /// Message texts are personal data: only their sizes are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("title_bytes", &self.title.as_ref().map(String::len))
            .field("body_bytes", &self.body.len())
            .field("data_keys", &self.data.len())
            .finish()
    }
}

/// An approved payment with everything that its notifications need, ready to be recorded.
#[derive(Debug, Clone)]
pub struct Payment {
    /// UUIDv7, made before the first attempt to commit, so that a commit whose answer was lost can
    /// be repeated without a second payment.
    pub id: Uuid,
    /// Name of the API key that posted it; scopes idempotency keys and what GET shows.
    pub client: String,
    /// The caller's own reference.
    pub order_id: String,
    /// Amount in the currency's minor unit (KRW 15000 is 15,000 won, USD 1250 is $12.50).
    pub amount: i64,
    /// ISO 4217 currency.
    pub currency: Currency,
    /// Free text of the caller.
    pub description: Option<String>,
    /// The BCP 47 tag as the caller gave it.
    pub locale: Option<String>,
    /// When this service approved it; shown to people, never compared with another clock's time.
    pub created_at: DateTime<Utc>,
    /// 1..=20 notifications, each with its own outbox row.
    pub notifications: Vec<Notification>,
}

/// One message to one recipient over one channel.
#[derive(Debug, Clone)]
pub struct Notification {
    /// The outbox id (UUIDv7), also the first reference given to the provider.
    pub id: Uuid,
    /// Which lane carries it.
    pub channel: Channel,
    /// Whom it goes to.
    pub recipient: Recipient,
    /// What is sent.
    pub payload: Payload,
}
