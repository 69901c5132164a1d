//! What Solapi's answers mean.

use serde_json::Value;

use crate::provider::Outcome;
use crate::provider::client::{Reply, message_id};
use crate::provider::redact::Redactor;
use crate::provider::sms::verdict::{
    Codes, Meaning, OPTED_OUT, REFUSED, Statuses, of_code, of_status,
};

/// What a message's own `statusCode` or a refused request's `errorCode` means.
/// Sources: <https://developers.solapi.com/references/message-status-codes>,
/// <https://developers.solapi.com/references/authentication/api-key>
const CODES: &Codes = &[
    ("1020", Meaning::Misconfigured), // login
    ("1024", Meaning::Deferred),      // server error before the message was taken
    ("1030", Meaning::Misconfigured), // no balance
    ("1061", OPTED_OUT),              // opted out by the free number
    ("1062", Meaning::Misconfigured), // sender not registered
    ("2024", Meaning::Deferred),      // server error: the message was not handed on
    ("2230", Meaning::Misconfigured), // no balance
    ("2254", REFUSED),                // taken for spam
    ("3010", REFUSED),                // bad number
    ("3024", Meaning::Deferred),      // carrier's server error
    ("3040", Meaning::Unknown),       // the carrier did not answer in time
    ("3041", Meaning::Deferred),
    ("3042", Meaning::Deferred), // no signal
    ("3043", Meaning::Deferred), // switched off
    ("3053", Meaning::Deferred),
    ("3059", Meaning::Misconfigured),           // forged sender
    ("DuplicatedSignature", Meaning::Deferred), // the next attempt has another salt
    ("InvalidAPIKey", Meaning::Misconfigured),
    ("NotEnoughBalance", Meaning::Misconfigured),
    ("RequestTimeTooSkewed", Meaning::Misconfigured),
    ("SignatureDoesNotMatch", Meaning::Misconfigured),
    ("TooManyRequests", Meaning::Deferred),
];

/// What the first digit of another `statusCode` means: refused at entry, failed on the platform,
/// failed at the carrier.
const CLASSES: &Codes = &[("1", REFUSED), ("2", Meaning::Unknown), ("3", REFUSED)];

/// Taken, handed to the carrier, done.
const ACCEPTED: [&str; 3] = ["2000", "3000", "4000"];

/// What a status means when its code is none of these; 200 is looked at before.
const STATUSES: &Statuses = &[
    (401..=405, Meaning::Misconfigured), // 402: no balance; the path is the API's own
    (407..=407, Meaning::Misconfigured),
    (408..=408, Meaning::Unknown),
    (425..=425, Meaning::Deferred),
    (429..=429, Meaning::Deferred),
    (400..=499, REFUSED),
];

/// Decides on an answer. A 200 is none yet: it may carry the message's failure.
pub fn judge(reply: &Reply, redactor: impl FnOnce() -> Redactor) -> Outcome {
    let json = reply.json().unwrap_or_default();
    let (meaning, words) = if (200..=299).contains(&reply.status) {
        match of_message(&json) {
            Ok(provider_message_id) => {
                return Outcome::Accepted {
                    provider_message_id,
                };
            }
            Err(refusal) => refusal,
        }
    } else {
        of_request(reply.status, &json)
    };
    let words = words.unwrap_or_else(|| reply.text());
    meaning.outcome(reply, &words, redactor())
}

type Refusal = (Meaning, Option<String>);

/// Of a request that was answered with a 2xx, what became of its one message: Solapi's id of it if
/// it was accepted.
fn of_message(json: &Value) -> Result<Option<String>, Refusal> {
    if let Some(failed) = json["failedMessageList"].get(0) {
        let code = failed["statusCode"].as_str().unwrap_or_default();
        return Err((
            of_status_code(code),
            said(code, failed["statusMessage"].as_str()),
        ));
    }
    // The list is there because we ask for it; the answer to a single message has no list.
    let message = json["messageList"].get(0).unwrap_or(json);
    let id = message["messageId"].as_str();
    match (message["statusCode"].as_str(), id) {
        (Some(code), Some(id)) if ACCEPTED.contains(&code) => Ok(message_id(id)),
        (Some(code), _) if !ACCEPTED.contains(&code) => Err((
            of_status_code(code),
            said(code, message["statusMessage"].as_str()),
        )),
        _ => match json["groupInfo"]["count"]["registeredSuccess"].as_u64() {
            Some(1) => Ok(None),
            _ => Err((Meaning::Unknown, None)),
        },
    }
}

fn of_status_code(code: &str) -> Meaning {
    of_code(CODES, code)
        .or_else(|| of_code(CLASSES, code.get(..1)?))
        .unwrap_or(Meaning::Unknown)
}

/// Of a request that was refused as a whole. A status alone, from somebody who does not speak
/// Solapi's JSON, says nothing of the message.
fn of_request(status: u16, json: &Value) -> Refusal {
    let code = json["errorCode"].as_str().unwrap_or_default();
    let meaning = of_code(CODES, code).unwrap_or_else(|| match of_status(STATUSES, status) {
        Meaning::Rejected(_) if !json.is_object() => Meaning::Unknown,
        meaning => meaning,
    });
    (meaning, said(code, json["errorMessage"].as_str()))
}

/// Code and message in one line; `None` when there is no message.
fn said(code: &str, message: Option<&str>) -> Option<String> {
    message.map(|message| format!("{code}: {message}"))
}
