//! The generic SMS gateway, under `/sms`.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use chrono::Utc;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::behavior::Target;
use super::dialect::{self, Dialect};
use super::state::{Accepted, State};
use crate::payment::Channel;

const PROVIDER: &str = "http";

/// Characters in a text, as in the payments API.
const MAX_TEXT_CHARS: usize = 2_000;

const MAX_BODY_BYTES: usize = 64 * 1024;

const DIALECT: Dialect = Dialect {
    target: Target::Sms,
    accepted: StatusCode::OK,
    yes: |accepted| json!({ "message_id": accepted.id }),
    is_yes: |body| body["message_id"].is_string(),
    no: |status| json!({ "message": status.canonical_reason() }),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    id: String,
    to: String,
    from: Option<String>,
    text: String,
    title: Option<String>,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.service(
        web::scope("/sms")
            .app_data(web::PayloadConfig::new(MAX_BODY_BYTES))
            .route("/messages", web::post().to(send))
            .route("/messages/{reference}", web::get().to(look_up)),
    );
}

async fn send(state: web::Data<State>, request: HttpRequest, body: web::Bytes) -> HttpResponse {
    match parse(&request, &body) {
        Ok(draft) => dialect::receive(state, &request, draft, DIALECT).await,
        Err((status, message)) => HttpResponse::build(status).json(json!({ "message": message })),
    }
}

async fn look_up(
    state: web::Data<State>,
    request: HttpRequest,
    reference: web::Path<String>,
) -> HttpResponse {
    let first = state.first(PROVIDER, &reference);
    let to = first.as_ref().map(|accepted| accepted.to.as_str());
    dialect::look_up(&state, &request, to, || match &first {
        Some(accepted) => HttpResponse::Ok().json(json!({ "message_id": accepted.id })),
        None => HttpResponse::NotFound().json(json!({ "message": "no such message" })),
    })
    .await
}

fn parse(request: &HttpRequest, body: &[u8]) -> Result<Accepted, (StatusCode, String)> {
    let bad = |message: &str| Err((StatusCode::BAD_REQUEST, message.to_owned()));
    if request.content_type() != "application/json" {
        let message = "Content-Type must be application/json".to_owned();
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let message: Request = serde_json::from_slice(body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("bad JSON: {error}")))?;
    let key = request.headers().get("Idempotency-Key");
    if key.is_none_or(|key| key.as_bytes() != message.id.as_bytes()) {
        return bad("the Idempotency-Key header must be the id");
    }
    if message.id.is_empty() {
        return bad("id is empty");
    }
    if !is_e164(&message.to) {
        return bad("to must be a phone number in E.164, such as +821012345678");
    }
    if message.from.as_deref() == Some("") {
        return bad("from is empty: give a sender or null");
    }
    if !(1..=MAX_TEXT_CHARS).contains(&message.text.chars().count()) {
        return bad("text must have 1 to 2000 characters");
    }
    Ok(Accepted {
        id: Uuid::new_v4().to_string(),
        provider: PROVIDER,
        channel: Channel::Sms,
        to: message.to,
        title: message.title,
        text: Some(message.text),
        data: BTreeMap::new(),
        reference: Some(message.id),
        from: None,
        received_at: Utc::now(),
    })
}

pub(super) fn is_e164(number: &str) -> bool {
    number.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0')
    })
}
