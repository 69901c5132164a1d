//! What the answers of SENS mean.

use serde_json::Value;

use crate::provider::Outcome;
use crate::provider::client::{Reply, message_id};
use crate::provider::redact::Redactor;
use crate::provider::sms::verdict::{Meaning, REFUSED, Statuses, of_status};

/// What a status means: that of the answer, or the one that a 2xx tells in its body. SENS has no
/// finer codes; a 2xx with a request id is looked at before.
/// Source: <https://api.ncloud-docs.com/docs/en/ai-application-service-sens-smsv2>
const STATUSES: &Statuses = &[
    (401..=405, Meaning::Misconfigured), // keys and clock; the path is the service's
    (407..=407, Meaning::Misconfigured),
    (408..=408, Meaning::Unknown),
    (425..=425, Meaning::Deferred),
    (429..=429, Meaning::Deferred),
    (400..=499, REFUSED),
];

/// What the words of a refusal speak of when it is our account's, not the message's.
const OURS: [&str; 8] = [
    "balance",
    "calling",
    "from number",
    "field: from",
    "sender",
    "service",
    "timestamp",
    "발신번호",
];

/// Decides on an answer.
pub fn judge(reply: &Reply, redactor: impl FnOnce() -> Redactor) -> Outcome {
    let json = reply.json().unwrap_or_default();
    let told = told_status(reply.status, &json);
    if let (Some(id), Some(200..=299)) = (json["requestId"].as_str(), told) {
        return Outcome::Accepted {
            provider_message_id: message_id(id),
        };
    }
    let words = words(&json).unwrap_or_else(|| reply.text());
    meaning(told, &json, &words).outcome(reply, &words, redactor())
}

/// A 2xx tells the status of the request in its body.
fn told_status(status: u16, json: &Value) -> Option<u16> {
    if !(200..=299).contains(&status) {
        return Some(status);
    }
    match &json["statusCode"] {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64().and_then(|code| u16::try_from(code).ok()),
        _ => None,
    }
}

/// The table. A status alone, from somebody who does not speak JSON, says nothing of the message.
fn meaning(told: Option<u16>, json: &Value, words: &str) -> Meaning {
    let Some(status) = told else {
        return Meaning::Unknown;
    };
    let meaning = of_status(STATUSES, status);
    if !matches!(meaning, Meaning::Rejected(_)) {
        return meaning;
    }
    let words = words.to_lowercase();
    if !json.is_object() {
        Meaning::Unknown
    } else if OURS.iter().any(|word| words.contains(word)) {
        Meaning::Misconfigured
    } else {
        meaning
    }
}

/// The words, wherever this part of SENS puts them.
fn words(json: &Value) -> Option<String> {
    let places = [
        &json["errorMessage"],
        &json["message"],
        &json["error"]["message"],
        &json["errors"],
        &json["error"],
    ];
    let said = places.into_iter().find(|place| !place.is_null())?;
    Some(match said {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}
