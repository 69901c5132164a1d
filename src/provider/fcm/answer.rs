//! What FCM's answers mean.

use std::time::Duration;

use serde_json::Value;

use crate::provider::client::{Reply, message_id};
use crate::provider::redact::Redactor;
use crate::provider::{Outcome, RejectReason};

/// How long to wait when a quota is used up and no Retry-After says so.
/// Source: <https://firebase.google.com/docs/cloud-messaging/scale-fcm>
pub(super) const QUOTA_WAIT: Duration = Duration::from_secs(60);

/// The type of the error detail that carries FCM's own code.
const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";

/// The project's APNs or web push key is bad, not our token: mended in the Firebase console.
const THIRD_PARTY: [&str; 2] = ["THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Provably not processed.
    Deferred,
    /// Not processed; wait [`QUOTA_WAIT`] unless told otherwise.
    OverQuota,
    Misconfigured,
    Rejected(RejectReason),
    Unknown,
}

/// FCM's error codes, and the general status names that come without one.
/// Source: <https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode>; the names on the
/// right of an "or" are what the Admin SDKs take for the same.
const CODES: [(&str, Meaning); 12] = [
    (
        "INVALID_ARGUMENT",
        Meaning::Rejected(RejectReason::Rejected),
    ),
    // UNREGISTERED or NOT_FOUND: the app was removed or its token has expired.
    (
        "UNREGISTERED",
        Meaning::Rejected(RejectReason::RecipientUnreachable),
    ),
    (
        "NOT_FOUND",
        Meaning::Rejected(RejectReason::RecipientUnreachable),
    ),
    // The token belongs to another project: from here it cannot be reached.
    (
        "SENDER_ID_MISMATCH",
        Meaning::Rejected(RejectReason::RecipientUnreachable),
    ),
    (THIRD_PARTY[0], Meaning::Misconfigured),
    (THIRD_PARTY[1], Meaning::Misconfigured),
    // Our own credentials or the project's permissions.
    ("UNAUTHENTICATED", Meaning::Misconfigured),
    ("PERMISSION_DENIED", Meaning::Misconfigured),
    ("QUOTA_EXCEEDED", Meaning::OverQuota),
    ("RESOURCE_EXHAUSTED", Meaning::OverQuota),
    ("UNAVAILABLE", Meaning::Deferred),
    ("INTERNAL", Meaning::Unknown),
];

/// For answers without a code that is known: proxies and load balancers speak HTML. A bare 404 is
/// a wrong URL, not a token that is gone.
const STATUSES: [(u16, Meaning); 8] = [
    (401, Meaning::Misconfigured),
    (403, Meaning::Misconfigured),
    (404, Meaning::Misconfigured),
    (407, Meaning::Misconfigured),
    (408, Meaning::Unknown),
    (425, Meaning::Deferred),
    (429, Meaning::OverQuota),
    (503, Meaning::Deferred),
];

/// Decides what an answer of `messages:send` means.
pub(super) fn judge(reply: &Reply, redactor: impl FnOnce() -> Redactor) -> Outcome {
    let json = reply.json();
    let success = (200..=299).contains(&reply.status);
    if success && let Some(name) = json.as_ref().and_then(|json| json["name"].as_str()) {
        return Outcome::Accepted {
            provider_message_id: message_id(name),
        };
    }
    let meaning = if success {
        Meaning::Unknown
    } else {
        json.as_ref()
            .and_then(code)
            .and_then(by_code)
            .unwrap_or_else(|| by_status(reply.status))
    };
    let answer = redactor().answered(reply, &words(reply, json.as_ref()));
    let retry_after = reply.retry_after;
    match meaning {
        Meaning::Deferred => Outcome::Deferred {
            retry_after,
            answer,
        },
        Meaning::OverQuota => Outcome::Deferred {
            retry_after: retry_after.or(Some(QUOTA_WAIT)),
            answer,
        },
        Meaning::Misconfigured => Outcome::Misconfigured { answer },
        Meaning::Rejected(reason) => Outcome::Rejected { reason, answer },
        Meaning::Unknown => Outcome::Unknown {
            retry_after,
            answer,
        },
    }
}

/// Whether FCM does not take the access token. A 401 about the project's own APNs or web push key
/// is another matter.
pub(super) fn refuses_token(reply: &Reply) -> bool {
    let json = reply.json();
    let code = json.as_ref().and_then(code);
    reply.status == 401 && !code.is_some_and(|code| THIRD_PARTY.contains(&code))
}

/// The error's code, looked for where the Admin SDKs look: FCM's own detail, the status name, the
/// message, and an `error` that is a bare string.
fn code(json: &Value) -> Option<&str> {
    let error = &json["error"];
    let own = error["details"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|detail| detail["@type"] == FCM_ERROR)
        .and_then(|detail| detail["errorCode"].as_str());
    own.or_else(|| error["status"].as_str())
        .or_else(|| error["message"].as_str())
        .or_else(|| error.as_str())
}

fn by_code(code: &str) -> Option<Meaning> {
    CODES
        .iter()
        .find(|(name, _)| *name == code)
        .map(|(_, meaning)| *meaning)
}

fn by_status(status: u16) -> Meaning {
    let listed = STATUSES.iter().find(|(listed, _)| *listed == status);
    match (listed, status) {
        (Some((_, meaning)), _) => *meaning,
        (None, 400..=499) => Meaning::Rejected(RejectReason::Rejected),
        (None, _) => Meaning::Unknown,
    }
}

/// The code and FCM's own sentence, else whatever was sent.
fn words(reply: &Reply, json: Option<&Value>) -> String {
    let Some(json) = json else {
        return reply.text();
    };
    match (code(json), json["error"]["message"].as_str()) {
        (Some(code), Some(message)) if code != message => format!("{code}: {message}"),
        (Some(code), _) => code.to_owned(),
        (None, _) => reply.text(),
    }
}
