//! Solapi messages v4, at its own paths.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpRequest, HttpResponse, web};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

use super::behavior::Target;
use super::credentials::{KOREAN_FROM, SOLAPI_API_KEY, SOLAPI_API_SECRET};
use super::dialect::{self, Dialect};
use super::state::{Accepted, State};
use crate::payment::Channel;
use crate::payment::sms_text::{MAX_LMS_BYTES, MAX_SMS_BYTES, MAX_SUBJECT_BYTES, euc_kr_bytes};

const PROVIDER: &str = "solapi";

/// How far a request's clock may be off, and how long its signature is remembered.
/// Source: <https://developers.solapi.com/references/authentication/api-key>
const MAX_SKEW: TimeDelta = TimeDelta::minutes(15);

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;

const DIALECT: Dialect = Dialect {
    target: Target::Sms,
    accepted: StatusCode::OK,
    yes: |message| {
        json!({
            "failedMessageList": [],
            "groupInfo": {
                "groupId": format!("G4V{}", message.id),
                "count": { "total": 1, "registeredSuccess": 1, "registeredFailed": 0 },
            },
            "messageList": [{
                "messageId": message.id,
                "statusCode": "2000",
                "statusMessage": "정상 접수(이통사로 접수 예정)",
                "customFields": custom_fields(message),
            }],
        })
    },
    is_yes: |body| {
        body["failedMessageList"].get(0).is_none()
            && body["messageList"][0]["statusCode"].as_str() == Some("2000")
    },
    no: |status| {
        let code = match status.as_u16() {
            401 | 403 => "InvalidAPIKey",
            402 => "NotEnoughBalance",
            429 => "TooManyRequests",
            500..=599 => "InternalError",
            _ => "ValidationError",
        };
        error(code, "asked for by the mock's behaviour")
    },
};

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/messages/v4/send-many/detail", web::post().to(send))
        .route("/messages/v4/list", web::get().to(list));
}

fn error(code: &str, message: &str) -> Value {
    json!({ "errorCode": code, "errorMessage": message })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    to: String,
    from: String,
    text: String,
    #[serde(rename = "type")]
    kind: String,
    subject: Option<String>,
    #[serde(default)]
    custom_fields: BTreeMap<String, String>,
}

async fn send(state: web::Data<State>, request: HttpRequest, body: web::Bytes) -> HttpResponse {
    if let Err((code, message)) = authenticate(&state, &request) {
        return HttpResponse::Forbidden().json(error(code, message));
    }
    let message = match serde_json::from_slice::<Request>(&body) {
        Ok(Request { mut messages }) if messages.len() == 1 => messages.remove(0),
        Ok(_) => {
            let message = "the mock takes one message a request";
            return HttpResponse::BadRequest().json(error("ValidationError", message));
        }
        Err(fault) => {
            let message = fault.to_string();
            return HttpResponse::BadRequest().json(error("ValidationError", &message));
        }
    };
    match fault(&message) {
        Some((code, words)) => HttpResponse::Ok().json(failed(&message, code, words)),
        None => dialect::receive(state, &request, accepted(message), DIALECT).await,
    }
}

/// What is refused of a message itself comes in a 200.
fn failed(message: &Message, code: &str, words: &str) -> Value {
    json!({
        "failedMessageList": [{
            "to": message.to, "from": message.from, "statusCode": code, "statusMessage": words,
        }],
        "groupInfo": { "count": { "total": 1, "registeredSuccess": 0, "registeredFailed": 1 } },
        "messageList": [],
    })
}

fn fault(message: &Message) -> Option<(&'static str, &'static str)> {
    let max_bytes = match message.kind.as_str() {
        "SMS" => MAX_SMS_BYTES,
        "LMS" => MAX_LMS_BYTES,
        _ => return Some(("1011", "type must be SMS or LMS")),
    };
    let subject = message.subject.as_deref();
    if ![&message.to, &message.from]
        .iter()
        .all(|number| is_digits(number))
    {
        return Some(("1011", "numbers have digits only"));
    }
    if message.from != KOREAN_FROM {
        return Some(("1062", "the sender is not registered"));
    }
    if message.text.is_empty() {
        return Some(("1010", "text is missing"));
    }
    if subject.is_some() && message.kind == "SMS" {
        return Some(("1013", "an SMS has no subject"));
    }
    let subject_bytes = euc_kr_bytes(subject.unwrap_or_default());
    match (euc_kr_bytes(&message.text), subject_bytes) {
        (None, _) | (_, None) => Some(("1029", "has characters outside EUC-KR")),
        (Some(bytes), _) if bytes > max_bytes => Some(("1031", "text is too long")),
        (_, Some(bytes)) if bytes > MAX_SUBJECT_BYTES => Some(("1014", "subject is too long")),
        _ => None,
    }
}

fn is_digits(number: &str) -> bool {
    (7..=15).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn accepted(message: Message) -> Accepted {
    Accepted {
        id: format!("M4V{}", Uuid::new_v4().simple()),
        provider: PROVIDER,
        channel: Channel::Sms,
        to: message.to,
        title: message.subject,
        text: Some(message.text),
        data: BTreeMap::new(),
        reference: message.custom_fields.get("reference").cloned(),
        from: Some(message.from),
        received_at: Utc::now(),
    }
}

/// `HMAC-SHA256 apiKey=…, date=…, salt=…, signature=…`, fresh and never seen before.
fn authenticate(state: &State, request: &HttpRequest) -> Result<(), (&'static str, &'static str)> {
    let header = request.headers().get(AUTHORIZATION);
    let fields = header
        .and_then(|value| value.to_str().ok()?.strip_prefix("HMAC-SHA256 "))
        .map(|text| text.split(", ").filter_map(|field| field.split_once('=')));
    let Some(fields) = fields else {
        return Err((
            "Unauthorized",
            "the Authorization header is not HMAC-SHA256",
        ));
    };
    let fields: BTreeMap<&str, &str> = fields.collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default();
    if field("apiKey") != SOLAPI_API_KEY {
        return Err(("InvalidAPIKey", "no such key"));
    }
    let (date, salt) = (field("date"), field("salt"));
    let off = DateTime::parse_from_rfc3339(date)
        .map(|date| (Utc::now() - date.to_utc()).abs())
        .unwrap_or(TimeDelta::MAX);
    if off > MAX_SKEW {
        return Err((
            "RequestTimeTooSkewed",
            "the date is off by more than 15 minutes",
        ));
    }
    if !(12..=64).contains(&salt.len()) || !is_signed(date, salt, field("signature")) {
        return Err(("SignatureDoesNotMatch", "the signature is wrong"));
    }
    if !state.use_once(field("signature"), MAX_SKEW) {
        return Err(("DuplicatedSignature", "the signature was used before"));
    }
    Ok(())
}

fn is_signed(date: &str, salt: &str, signature: &str) -> bool {
    let lowercase = !signature.bytes().any(|byte| byte.is_ascii_uppercase());
    let pairs = signature.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let mac = Hmac::<Sha256>::new_from_slice(SOLAPI_API_SECRET.as_bytes());
    match (mac, bytes) {
        (Ok(mac), Some(bytes)) if lowercase => {
            let mac = mac.chain_update(date).chain_update(salt);
            mac.verify_slice(&bytes).is_ok()
        }
        _ => false,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    to: Option<String>,
    from: Option<String>,
    start_date: Option<DateTime<Utc>>,
    end_date: Option<DateTime<Utc>>,
    limit: Option<usize>,
    start_key: Option<String>,
}

impl Filter {
    fn keeps(&self, message: &Accepted) -> bool {
        let at = message.received_at;
        message.provider == PROVIDER
            && self.to.as_ref().is_none_or(|to| message.to == *to)
            && (self.from.is_none() || self.from == message.from)
            && self.start_date.is_none_or(|start| at >= start)
            && self.end_date.is_none_or(|end| at <= end)
    }
}

async fn list(
    state: web::Data<State>,
    request: HttpRequest,
    filter: web::Query<Filter>,
) -> HttpResponse {
    if let Err((code, message)) = authenticate(&state, &request) {
        return HttpResponse::Forbidden().json(error(code, message));
    }
    dialect::look_up(&state, &request, filter.to.as_deref(), || {
        let mut all = state.messages(|message| filter.keeps(message));
        all.reverse();
        let limit = filter.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let start = filter.start_key.as_ref().map_or(0, |key| {
            let at = all.iter().position(|message| message.id == *key);
            at.unwrap_or(all.len())
        });
        let shown = all.iter().skip(start).take(limit);
        let shown: serde_json::Map<_, _> = shown
            .map(|message| (message.id.clone(), stored(message)))
            .collect();
        let next = all.get(start.saturating_add(limit));
        HttpResponse::Ok().json(json!({
            "startKey": filter.start_key,
            "limit": limit,
            "messageList": shown,
            "nextKey": next.map(|message| &message.id),
        }))
    })
    .await
}

fn stored(message: &Accepted) -> Value {
    let created = message.received_at;
    json!({
        "messageId": message.id,
        "to": message.to,
        "from": message.from,
        "text": message.text,
        "subject": message.title,
        "statusCode": "2000",
        "customFields": custom_fields(message),
        "dateCreated": created.to_rfc3339_opts(SecondsFormat::Millis, true),
    })
}

fn custom_fields(message: &Accepted) -> Value {
    match &message.reference {
        Some(reference) => json!({ "reference": reference }),
        None => Value::Null,
    }
}
