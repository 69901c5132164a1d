//! FCM HTTP v1, at its own path.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use chrono::Utc;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::behavior::Target;
use super::dialect::{self, Dialect};
use super::google::Google;
use super::state::{Accepted, State};
use crate::payment::Channel;

/// Keys and values of the payload, in bytes.
/// Source: <https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode>
const MAX_PAYLOAD_BYTES: usize = 4_096;

/// The longest time to live.
const MAX_TTL_SECS: f64 = 2_419_200.0;

/// What APNs takes as a collapse id, in bytes.
const MAX_COLLAPSE_ID_BYTES: usize = 64;

const DIALECT: Dialect = Dialect {
    target: Target::Fcm,
    accepted: StatusCode::OK,
    yes: |accepted| json!({ "name": accepted.id }),
    is_yes: |body| body["name"].is_string(),
    no: |status| {
        error(
            status,
            "asked for by the mock's behaviour",
            Some(code(status)),
        )
    },
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    message: Message,
    #[serde(default, alias = "validateOnly")]
    validate_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    token: Option<String>,
    topic: Option<String>,
    condition: Option<String>,
    fid: Option<String>,
    notification: Option<Notification>,
    #[serde(default)]
    data: BTreeMap<String, String>,
    android: Option<Android>,
    apns: Option<Apns>,
    #[serde(rename = "webpush")]
    _webpush: Option<Value>,
    #[serde(rename = "fcm_options", alias = "fcmOptions")]
    _fcm_options: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notification {
    title: Option<String>,
    body: Option<String>,
    #[serde(rename = "image")]
    _image: Option<String>,
}

#[derive(Default, Deserialize)]
struct Android {
    priority: Option<String>,
    ttl: Option<String>,
    notification: Option<AndroidNotification>,
}

#[derive(Deserialize)]
struct AndroidNotification {
    tag: Option<String>,
}

#[derive(Deserialize)]
struct Apns {
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.route("/v1/projects/{project}/messages:send", web::post().to(send));
}

async fn send(
    state: web::Data<State>,
    google: web::Data<Google>,
    request: HttpRequest,
    project: web::Path<String>,
    body: web::Bytes,
) -> HttpResponse {
    if let Some(refusal) = google.refuse(&request) {
        return refusal;
    }
    let parsed = match serde_json::from_slice::<Request>(&body) {
        Ok(parsed) => parsed,
        Err(problem) => return refuse(&format!("Invalid JSON payload received. {problem}"), None),
    };
    if let Err(text) = check(&parsed.message) {
        return refuse(&text, Some("INVALID_ARGUMENT"));
    }
    if parsed.validate_only {
        let name = format!("projects/{project}/messages/fake_message_id");
        return HttpResponse::Ok().json(json!({ "name": name }));
    }
    let message = accepted(parsed.message, &project);
    dialect::receive(state, &request, message, DIALECT).await
}

fn check(message: &Message) -> Result<(), String> {
    if targets(message).count() != 1 {
        return Err("Exactly one of token, topic, condition or fid must be given.".to_owned());
    }
    if targets(message).any(str::is_empty) {
        return Err("The target is empty.".to_owned());
    }
    if let Some(key) = message.data.keys().find(|key| reserved(key)) {
        return Err(format!("Invalid data payload key: {key}"));
    }
    if payload_bytes(message) > MAX_PAYLOAD_BYTES {
        return Err("Message is too large. The maximum is 4K (4096 bytes).".to_owned());
    }
    let android = message.android.as_ref();
    if let Some(ttl) = android.and_then(|android| android.ttl.as_deref())
        && !is_ttl(ttl)
    {
        return Err(format!("Invalid ttl: {ttl}"));
    }
    if let Some(priority) = android.and_then(|android| android.priority.as_deref())
        && !matches!(priority, "NORMAL" | "HIGH" | "normal" | "high")
    {
        return Err(format!("Invalid priority: {priority}"));
    }
    let collapse_id = message
        .apns
        .as_ref()
        .and_then(|apns| apns.headers.get("apns-collapse-id"));
    if collapse_id.is_some_and(|id| id.len() > MAX_COLLAPSE_ID_BYTES) {
        return Err("apns-collapse-id is longer than 64 bytes.".to_owned());
    }
    Ok(())
}

fn targets(message: &Message) -> impl Iterator<Item = &str> {
    let all = [
        &message.token,
        &message.topic,
        &message.condition,
        &message.fid,
    ];
    all.into_iter().filter_map(|target| target.as_deref())
}

fn reserved(key: &str) -> bool {
    key == "from" || key == "message_type" || key.starts_with("google") || key.starts_with("gcm")
}

fn payload_bytes(message: &Message) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let data = message.data.iter();
    let data = data.map(|(key, value)| key.len() + value.len());
    let notification = message.notification.as_ref();
    let shown = notification.map_or(0, |shown| text(&shown.title) + text(&shown.body));
    data.sum::<usize>() + shown
}

/// Seconds with an "s", at most nine digits of fraction, up to four weeks.
fn is_ttl(ttl: &str) -> bool {
    let Some(number) = ttl.strip_suffix('s') else {
        return false;
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && fraction.len() <= 9
        && number.parse().is_ok_and(|secs: f64| secs <= MAX_TTL_SECS)
}

fn accepted(message: Message, project: &str) -> Accepted {
    let to = targets(&message).collect::<String>();
    let notification = message.notification.unwrap_or_default();
    let android = message.android.unwrap_or_default();
    Accepted {
        id: format!("projects/{project}/messages/{}", Uuid::new_v4()),
        channel: Channel::Fcm,
        provider: "fcm",
        to,
        title: notification.title,
        text: notification.body,
        data: message.data,
        reference: android.notification.and_then(|shown| shown.tag),
        from: None,
        received_at: Utc::now(),
    }
}

fn refuse(text: &str, code: Option<&str>) -> HttpResponse {
    let status = StatusCode::BAD_REQUEST;
    HttpResponse::build(status).json(error(status, text, code))
}

/// FCM's own code for a status.
fn code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "INVALID_ARGUMENT",
        401 => "THIRD_PARTY_AUTH_ERROR",
        403 => "SENDER_ID_MISMATCH",
        404 => "UNREGISTERED",
        429 => "QUOTA_EXCEEDED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        _ => "UNSPECIFIED_ERROR",
    }
}

/// An error as Google's APIs write it; without a code of FCM's own it is a fault of the form.
fn error(status: StatusCode, text: &str, code: Option<&str>) -> Value {
    let detail = match code {
        Some(code) => json!({
            "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError",
            "errorCode": code,
        }),
        None => json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "description": text }],
        }),
    };
    json!({ "error": {
        "code": status.as_u16(),
        "message": text,
        "status": general_name(status),
        "details": [detail],
    }})
}

/// The general name of a status in Google's APIs.
fn general_name(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    }
}
