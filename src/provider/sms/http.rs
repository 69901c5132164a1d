//! The generic SMS gateway: one JSON POST a message, and a look-up by our reference.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use url::Url;

use crate::provider::client::{Client, Failure, Reply, endpoint, message_id};
use crate::provider::redact::Redactor;
use crate::provider::{LOOK_UP_TIMEOUT, LookUp, Message, Outcome, Provider, RejectReason};

/// Where the gateway is and who we are to it.
#[derive(Debug, Clone)]
pub struct HttpSmsSettings {
    /// An http or https URL; `/messages` is added to its path.
    pub base_url: Url,
    /// The sender shown to the recipient; the gateway's default when absent.
    pub from: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<SecretString>,
}

/// Speaks to one generic gateway.
pub struct HttpSms {
    settings: HttpSmsSettings,
    client: Client,
}

/// What a status means for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Deferred,
    Misconfigured,
    Rejected,
    Unknown,
}

/// Every status that is not an acceptance; the first row that holds it counts. What no row holds
/// (any other 2xx, a redirect, any other 5xx) is unknown.
const STATUSES: [(RangeInclusive<u16>, Meaning); 8] = [
    (408..=408, Meaning::Unknown),
    (425..=425, Meaning::Deferred),
    (429..=429, Meaning::Deferred),
    (503..=503, Meaning::Deferred),
    (401..=401, Meaning::Misconfigured),
    (403..=403, Meaning::Misconfigured),
    (407..=407, Meaning::Misconfigured),
    (400..=499, Meaning::Rejected),
];

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    to: &'a str,
    from: Option<&'a str>,
    text: &'a str,
    title: Option<&'a str>,
}

impl HttpSms {
    /// An adapter for the gateway of these settings.
    pub fn new(settings: HttpSmsSettings, client: Client) -> Self {
        Self { settings, client }
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.settings.api_key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }

    fn redactor(&self, message: &Message) -> Redactor {
        let redactor = Redactor::for_message(message);
        match &self.settings.api_key {
            Some(key) => redactor.with_secret(key.expose_secret()),
            None => redactor,
        }
    }
}

#[async_trait]
impl Provider for HttpSms {
    fn name(&self) -> &'static str {
        "http"
    }

    async fn send(&self, message: &Message) -> Outcome {
        let body = Body {
            id: &message.reference,
            to: message.recipient.as_str(),
            from: self.settings.from.as_deref(),
            text: &message.payload.body,
            title: message.payload.title.as_deref(),
        };
        let url = endpoint(&self.settings.base_url, &["messages"]);
        let result = self.client.call(|http| {
            self.authorized(http.post(url))
                .header("Idempotency-Key", &*message.reference)
                .json(&body)
        });
        match result.await {
            Ok(reply) => judge(&reply, || self.redactor(message)),
            Err(failure) => failure.outcome(&self.redactor(message)),
        }
    }

    async fn look_up(&self, message: &Message) -> LookUp {
        let path = ["messages", &*message.reference];
        let url = endpoint(&self.settings.base_url, &path);
        let result = self
            .client
            .call(|http| self.authorized(http.get(url)).timeout(LOOK_UP_TIMEOUT));
        let redactor = self.redactor(message);
        let answer = match result.await {
            Ok(reply) => match (reply.status, reply.json()) {
                (200, Some(json)) if json["message_id"].is_string() => {
                    return LookUp::Found {
                        provider_message_id: json["message_id"].as_str().and_then(message_id),
                    };
                }
                (404, _) => return LookUp::NeverSeen,
                (405 | 501, _) => return LookUp::Unsupported,
                _ => redactor.answered(&reply, &words(&reply)),
            },
            Err(Failure::NotSent(text) | Failure::Unanswered(text)) => redactor.answer(None, &text),
        };
        LookUp::Failed { answer }
    }
}

fn judge(reply: &Reply, redactor: impl FnOnce() -> Redactor) -> Outcome {
    if let Some(provider_message_id) = accepted(reply) {
        return Outcome::Accepted {
            provider_message_id,
        };
    }
    let answer = redactor().answered(reply, &words(reply));
    let retry_after = reply.retry_after;
    match meaning(reply.status) {
        Meaning::Deferred => Outcome::Deferred {
            retry_after,
            answer,
        },
        Meaning::Misconfigured => Outcome::Misconfigured { answer },
        Meaning::Rejected => Outcome::Rejected {
            reason: RejectReason::Rejected,
            answer,
        },
        Meaning::Unknown => Outcome::Unknown {
            retry_after,
            answer,
        },
    }
}

/// The gateway's id of the message (which it need not have) if the answer is an acceptance: a 204,
/// or another 2xx with a string `message_id`. A 200 alone is none: gateways say "ERROR: 14" with
/// it.
fn accepted(reply: &Reply) -> Option<Option<String>> {
    match reply.status {
        204 => Some(None),
        200..=299 => reply.json()?["message_id"].as_str().map(message_id),
        _ => None,
    }
}

fn meaning(status: u16) -> Meaning {
    STATUSES
        .iter()
        .find(|(statuses, _)| statuses.contains(&status))
        .map_or(Meaning::Unknown, |(_, meaning)| *meaning)
}

/// The gateway's own words: `message`, else `error`, else the whole body.
fn words(reply: &Reply) -> String {
    let said = reply.json().and_then(|json| {
        ["message", "error"]
            .iter()
            .find_map(|name| json.get(name).and_then(Value::as_str).map(str::to_owned))
    });
    said.unwrap_or_else(|| reply.text())
}

#[cfg(test)]
mod tests;
