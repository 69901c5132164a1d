//! Naver Cloud SENS, SMS v2, at its own paths.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

use super::behavior::Target;
use super::credentials::{KOREAN_FROM, SENS_ACCESS_KEY, SENS_SECRET_KEY, SENS_SERVICE_ID};
use super::dialect::{self, Dialect};
use super::state::{Accepted, State};
use crate::payment::Channel;
use crate::payment::sms_text::{MAX_LMS_BYTES, MAX_SMS_BYTES, MAX_SUBJECT_BYTES, euc_kr_bytes};

const PROVIDER: &str = "sens";

/// How far a request's clock may be off.
/// Source: <https://api.ncloud-docs.com/docs/en/ai-application-service-sens-smsv2>
const MAX_SKEW: TimeDelta = TimeDelta::minutes(5);
/// A list spans at most so much.
const MAX_SPAN: TimeDelta = TimeDelta::days(30);

const DEFAULT_PAGE_SIZE: usize = 20;
const MAX_PAGE_SIZE: usize = 100;

const SEOUL: TimeDelta = TimeDelta::hours(9);
const TIME: &str = "%Y-%m-%d %H:%M:%S";

const DIALECT: Dialect = Dialect {
    target: Target::Sms,
    accepted: StatusCode::ACCEPTED,
    yes: |message| {
        json!({
            "requestId": message.id,
            "requestTime": seoul_time(message.received_at),
            "statusCode": "202",
            "statusName": "success",
        })
    },
    is_yes: |body| body["requestId"].is_string() && body["statusCode"].as_str() == Some("202"),
    no: |status| error(status, "asked for by the mock's behaviour"),
};

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/sms/v2/services/{service}/messages")
                .route(web::post().to(send))
                .route(web::get().to(list)),
        )
        .route(
            "/sms/v2/services/{service}/messages/{message}",
            web::get().to(show),
        );
}

fn error(status: StatusCode, message: &str) -> Value {
    json!({ "status": status.as_u16(), "errorMessage": message })
}

fn refuse(status: StatusCode, message: &str) -> HttpResponse {
    HttpResponse::build(status).json(error(status, message))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    #[serde(rename = "type")]
    kind: String,
    from: String,
    subject: Option<String>,
    content: String,
    messages: Vec<To>,
}

#[derive(Deserialize)]
struct To {
    to: String,
}

async fn send(
    state: web::Data<State>,
    request: HttpRequest,
    service: web::Path<String>,
    body: web::Bytes,
) -> HttpResponse {
    if let Err((status, message)) = authenticate(&request, &service) {
        return refuse(status, message);
    }
    let parsed = match serde_json::from_slice::<Request>(&body) {
        Ok(parsed) => parsed,
        Err(fault) => return refuse(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    match parsed.accepted() {
        Ok(message) => dialect::receive(state, &request, message, DIALECT).await,
        Err(message) => refuse(StatusCode::BAD_REQUEST, message),
    }
}

impl Request {
    fn accepted(mut self) -> Result<Accepted, &'static str> {
        let max_bytes = match self.kind.as_str() {
            "SMS" | "sms" => MAX_SMS_BYTES,
            "LMS" | "lms" => MAX_LMS_BYTES,
            _ => return Err("type must be SMS or LMS"),
        };
        let to = match (self.messages.pop(), self.messages.is_empty()) {
            (Some(To { to }), true) => to,
            _ => return Err("the mock takes one message a request"),
        };
        let digits = |number: &str| {
            (7..=15).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(&to) {
            return Err("to has digits only");
        }
        if self.from != KOREAN_FROM {
            return Err("the calling number is not registered");
        }
        if self.content.is_empty() {
            return Err("content is empty");
        }
        let subject = self.subject.as_deref().unwrap_or_default();
        if euc_kr_bytes(&self.content).is_none() || euc_kr_bytes(subject).is_none() {
            return Err("has characters that cannot be sent");
        }
        Ok(Accepted {
            id: Uuid::new_v4().simple().to_string(),
            provider: PROVIDER,
            channel: Channel::Sms,
            to,
            title: self.subject.map(|text| cut(&text, MAX_SUBJECT_BYTES)),
            text: Some(cut(&self.content, max_bytes)),
            data: BTreeMap::new(),
            reference: None,
            from: Some(self.from),
            received_at: Utc::now(),
        })
    }
}

/// What is too long is cut without a word.
fn cut(text: &str, max_bytes: usize) -> String {
    let mut kept = String::new();
    for character in text.chars() {
        kept.push(character);
        if euc_kr_bytes(&kept).is_none_or(|bytes| bytes > max_bytes) {
            kept.pop();
            break;
        }
    }
    kept
}

fn authenticate(request: &HttpRequest, service: &str) -> Result<(), (StatusCode, &'static str)> {
    let refused = |message| Err((StatusCode::UNAUTHORIZED, message));
    let header = |name: &str| {
        let value = request.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    };
    let timestamp = header("x-ncp-apigw-timestamp");
    let sent = timestamp
        .parse()
        .ok()
        .and_then(DateTime::from_timestamp_millis);
    let off = sent.map_or(TimeDelta::MAX, |sent| (Utc::now() - sent).abs());
    if off > MAX_SKEW {
        return refused("the timestamp is off by more than 5 minutes");
    }
    let access_key = header("x-ncp-iam-access-key");
    let path = request
        .uri()
        .path_and_query()
        .map_or("", |path| path.as_str());
    let signed = format!("{} {path}\n{timestamp}\n{access_key}", request.method());
    let signature = STANDARD.decode(header("x-ncp-apigw-signature-v2"));
    let mac = Hmac::<Sha256>::new_from_slice(SENS_SECRET_KEY.as_bytes());
    let matches = match (mac, signature) {
        (Ok(mac), Ok(signature)) => mac.chain_update(signed).verify_slice(&signature).is_ok(),
        _ => false,
    };
    if access_key != SENS_ACCESS_KEY || !matches {
        return refused("Authentication Failed");
    }
    if service != SENS_SERVICE_ID {
        return Err((StatusCode::NOT_FOUND, "no such service"));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    request_start_time: String,
    request_end_time: String,
    to: Option<String>,
    from: Option<String>,
    page_size: Option<usize>,
    next_token: Option<usize>,
}

impl Filter {
    /// The span asked for, read as Seoul's time.
    fn span(&self) -> Result<(DateTime<Utc>, DateTime<Utc>), &'static str> {
        let read = |text: &str| {
            let local = NaiveDateTime::parse_from_str(text, TIME);
            local.map(|local| (local - SEOUL).and_utc())
        };
        match (read(&self.request_start_time), read(&self.request_end_time)) {
            (Ok(start), Ok(end)) if end - start <= MAX_SPAN => Ok((start, end)),
            (Ok(_), Ok(_)) => Err("the times are more than 30 days apart"),
            _ => Err("requestStartTime and requestEndTime are YYYY-MM-DD HH:mm:ss"),
        }
    }
}

async fn list(
    state: web::Data<State>,
    request: HttpRequest,
    service: web::Path<String>,
    filter: web::Query<Filter>,
) -> HttpResponse {
    if let Err((status, message)) = authenticate(&request, &service) {
        return refuse(status, message);
    }
    let (start, end) = match filter.span() {
        Ok(span) => span,
        Err(message) => return refuse(StatusCode::BAD_REQUEST, message),
    };
    dialect::look_up(&state, &request, filter.to.as_deref(), || {
        let all = state.messages(|message| {
            message.provider == PROVIDER
                && (start..=end).contains(&message.received_at)
                && filter.to.as_ref().is_none_or(|to| message.to == *to)
                && (filter.from.is_none() || filter.from == message.from)
        });
        let size = filter.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
        let size = size.clamp(1, MAX_PAGE_SIZE);
        let start = filter.next_token.unwrap_or(0);
        let next = start.saturating_add(size);
        let more = all.len() > next;
        let shown = all.iter().rev().skip(start).take(size);
        HttpResponse::Accepted().json(json!({
            "statusCode": "202",
            "statusName": "success",
            "messages": shown.map(|message| listed(message)).collect::<Vec<_>>(),
            "pageSize": size,
            "hasMore": more,
            "nextToken": more.then(|| next.to_string()),
        }))
    })
    .await
}

/// As the list shows it: without its text.
fn listed(message: &Accepted) -> Value {
    json!({
        "requestId": message.id,
        "messageId": message_id(message),
        "requestTime": seoul_time(message.received_at),
        "contentType": "COMM",
        "countryCode": "82",
        "from": message.from,
        "to": message.to,
        "status": "READY",
    })
}

fn message_id(message: &Accepted) -> String {
    format!("0-{}-0", message.id)
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    path: web::Path<(String, String)>,
) -> HttpResponse {
    let (service, id) = path.into_inner();
    if let Err((status, message)) = authenticate(&request, &service) {
        return refuse(status, message);
    }
    let found = state.messages(|message| message.provider == PROVIDER && message_id(message) == id);
    let Some(message) = found.first() else {
        return refuse(StatusCode::NOT_FOUND, "no such message");
    };
    let mut shown = listed(message);
    shown["content"] = json!(message.text);
    shown["subject"] = json!(message.title);
    HttpResponse::Ok().json(json!({
        "statusCode": "200",
        "statusName": "success",
        "messages": [shown],
    }))
}

fn seoul_time(at: DateTime<Utc>) -> String {
    (at + SEOUL).format("%Y-%m-%dT%H:%M:%S%.3f").to_string()
}
