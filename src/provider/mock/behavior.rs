//! How the mock misbehaves on demand.

use std::collections::BTreeMap;
use std::str::FromStr;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

/// What a behaviour is set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Sending an SMS, in whatever dialect.
    Sms,
    /// Sending a push.
    Fcm,
    /// Asking about an SMS.
    SmsLookup,
    /// Google's token endpoint.
    Token,
}

impl Target {
    /// Every target with its name in the control routes.
    pub const ALL: [(&'static str, Self); 4] = [
        ("sms", Self::Sms),
        ("fcm", Self::Fcm),
        ("sms_lookup", Self::SmsLookup),
        ("token", Self::Token),
    ];

    fn accepts_messages(self) -> bool {
        matches!(self, Self::Sms | Self::Fcm)
    }
}

/// Something worse than a bad answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nothing is stored and no answer comes.
    Hang,
    /// Nothing is stored and the connection is reset.
    Reset,
    /// The message is stored and no answer comes.
    AcceptThenHang,
    /// The message is stored and the connection is reset.
    AcceptThenReset,
    /// The message is stored after the latency, even if the client has left by then.
    LateAccept,
    /// Nothing is stored; an HTML page comes.
    NotJson,
    /// Nothing is stored; a body comes that never ends.
    EndlessBody,
}

impl Fault {
    /// Whether the message is stored.
    pub(super) fn stores(self) -> bool {
        match self {
            Self::AcceptThenHang | Self::AcceptThenReset | Self::LateAccept => true,
            Self::Hang | Self::Reset | Self::NotJson | Self::EndlessBody => false,
        }
    }
}

/// How requests are treated; without anything set, as a healthy provider would.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Behavior {
    /// Only for this recipient; it wins over one for everybody. A Korean number may be written in
    /// E.164 whatever the dialect writes.
    pub to: Option<String>,
    /// For so many requests, then never again.
    pub times: Option<u64>,
    /// Passes before anything else happens, in milliseconds.
    pub latency_ms: u64,
    /// The answer's status. A message is stored only with a 2xx.
    pub status: Option<u16>,
    /// The answer's body in place of the usual one. A message is then stored only if the body says
    /// that it was accepted.
    pub body: Option<Value>,
    /// Headers added to the answer.
    pub headers: BTreeMap<String, String>,
    /// Something worse.
    pub fault: Option<Fault>,
}

/// A behaviour that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBehavior {
    /// `times` is 0.
    #[error("times is 0: leave the behaviour out, or give 1 or more")]
    NoTimes,
    /// `status` cannot be sent as a final answer.
    #[error("status {0} cannot be answered: give 200 to 599")]
    Status(u16),
    /// A header cannot be sent.
    #[error("header {0:?} has a name or a value that HTTP does not allow")]
    Header(String),
    /// The fault stores a message, and the target takes none.
    #[error(
        "this fault stores a message, and only sms and fcm take messages: use hang, reset, not_json or endless_body"
    )]
    Fault,
    /// The target knows no recipients.
    #[error("token requests have no recipient: leave `to` out")]
    To,
}

impl Behavior {
    /// Whether it makes sense for the target.
    ///
    /// # Errors
    ///
    /// Names the part that does not.
    pub fn check(&self, target: Target) -> Result<(), InvalidBehavior> {
        if self.times == Some(0) {
            return Err(InvalidBehavior::NoTimes);
        }
        if let Some(status) = self.status
            && !(200..=599).contains(&status)
        {
            return Err(InvalidBehavior::Status(status));
        }
        for (name, value) in &self.headers {
            if HeaderName::from_str(name).is_err() || HeaderValue::from_str(value).is_err() {
                return Err(InvalidBehavior::Header(name.clone()));
            }
        }
        if self.fault.is_some_and(Fault::stores) && !target.accepts_messages() {
            return Err(InvalidBehavior::Fault);
        }
        if target == Target::Token && self.to.is_some() {
            return Err(InvalidBehavior::To);
        }
        Ok(())
    }

    /// The status to answer with.
    pub(super) fn status(&self) -> StatusCode {
        self.status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .unwrap_or(StatusCode::OK)
    }
}
