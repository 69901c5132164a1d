//! Twilio Messages, at its own path.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::Utc;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use super::behavior::Target;
use super::credentials::{TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN, TWILIO_FROM};
use super::dialect::{self, Dialect};
use super::sms::is_e164;
use super::state::{Accepted, State};
use crate::payment::Channel;

const PROVIDER: &str = "twilio";

/// Source: <https://www.twilio.com/docs/messaging/api/message-resource>
const MAX_BODY_UNITS: usize = 1_600;
const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 1_000;

const DIALECT: Dialect = Dialect {
    target: Target::Sms,
    accepted: StatusCode::CREATED,
    yes: resource,
    is_yes: |body| body["sid"].is_string(),
    no: |status| {
        let code = match status.as_u16() {
            401 => 20003,
            429 => 20429,
            503 => 20503,
            500..=599 => 20500,
            _ => 21211,
        };
        error(status, code, "asked for by the mock's behaviour")
    },
};

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.service(
        web::resource("/2010-04-01/Accounts/{account}/Messages.json")
            .route(web::post().to(send))
            .route(web::get().to(list)),
    );
}

/// A refusal: status, code and words.
type Refusal = (StatusCode, u32, &'static str);

fn refuse((status, code, message): Refusal) -> HttpResponse {
    HttpResponse::build(status).json(error(status, code, message))
}

fn error(status: StatusCode, code: u32, message: &str) -> Value {
    json!({
        "code": code,
        "message": message,
        "more_info": format!("https://www.twilio.com/docs/errors/{code}"),
        "status": status.as_u16(),
    })
}

async fn send(
    state: web::Data<State>,
    request: HttpRequest,
    account: web::Path<String>,
    body: web::Bytes,
) -> HttpResponse {
    if let Err(refusal) = authenticate(&request, &account) {
        return refuse(refusal);
    }
    match parse(&request, &body) {
        Ok(message) => dialect::receive(state, &request, message, DIALECT).await,
        Err(refusal) => refuse(refusal),
    }
}

fn authenticate(request: &HttpRequest, account: &str) -> Result<(), Refusal> {
    let header = request.headers().get(AUTHORIZATION);
    let given = header
        .and_then(|value| value.to_str().ok()?.strip_prefix("Basic "))
        .and_then(|encoded| STANDARD.decode(encoded).ok());
    let expected = format!("{TWILIO_ACCOUNT_SID}:{TWILIO_AUTH_TOKEN}");
    if given.as_deref() != Some(expected.as_bytes()) {
        return Err((StatusCode::UNAUTHORIZED, 20003, "Authenticate"));
    }
    if account != TWILIO_ACCOUNT_SID {
        let message = "The requested resource was not found";
        return Err((StatusCode::NOT_FOUND, 20404, message));
    }
    Ok(())
}

fn parse(request: &HttpRequest, body: &[u8]) -> Result<Accepted, Refusal> {
    let bad = |code, message| Err((StatusCode::BAD_REQUEST, code, message));
    if request.content_type() != "application/x-www-form-urlencoded" {
        let message = "The body must be a form";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, 20415, message));
    }
    let mut form: HashMap<_, _> = form_urlencoded::parse(body).into_owned().collect();
    let (to, from, text) = (form.remove("To"), form.remove("From"), form.remove("Body"));
    let Some(to) = to.filter(|to| !to.is_empty()) else {
        return bad(21604, "A 'To' phone number is required");
    };
    if !is_e164(&to) {
        return bad(21211, "The 'To' number is not a valid phone number");
    }
    let Some(from) = from else {
        return bad(21603, "A 'From' phone number is required");
    };
    if from != TWILIO_FROM {
        return bad(21606, "The 'From' number is not a number of this account");
    }
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return bad(21602, "Message body is required");
    };
    if text.encode_utf16().count() > MAX_BODY_UNITS {
        return bad(21617, "The message body exceeds the 1600 character limit");
    }
    Ok(Accepted {
        id: format!("SM{}", Uuid::new_v4().simple()),
        provider: PROVIDER,
        channel: Channel::Sms,
        to,
        title: None,
        text: Some(text),
        data: BTreeMap::new(),
        reference: None,
        from: Some(from),
        received_at: Utc::now(),
    })
}

/// A message as it is shown, newly made or listed.
fn resource(message: &Accepted) -> Value {
    let account = TWILIO_ACCOUNT_SID;
    json!({
        "sid": message.id,
        "account_sid": account,
        "status": "queued",
        "to": message.to,
        "from": message.from,
        "body": message.text,
        "num_segments": "1",
        "direction": "outbound-api",
        "error_code": null,
        "error_message": null,
        "date_created": message.received_at.to_rfc2822(),
        "date_sent": null,
        "messaging_service_sid": null,
        "price": null,
        "uri": format!("/2010-04-01/Accounts/{account}/Messages/{}.json", message.id),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filter {
    to: Option<String>,
    from: Option<String>,
    page_size: Option<usize>,
    page: Option<usize>,
}

async fn list(
    state: web::Data<State>,
    request: HttpRequest,
    account: web::Path<String>,
    filter: web::Query<Filter>,
) -> HttpResponse {
    if let Err(refusal) = authenticate(&request, &account) {
        return refuse(refusal);
    }
    dialect::look_up(&state, &request, filter.to.as_deref(), || {
        let mut all = state.messages(|message| {
            message.provider == PROVIDER
                && filter.to.as_ref().is_none_or(|to| message.to == *to)
                && (filter.from.is_none() || filter.from == message.from)
        });
        all.reverse();
        HttpResponse::Ok().json(page(&all, &filter))
    })
    .await
}

/// Newest first, with the next page's address.
fn page(all: &[Arc<Accepted>], filter: &Filter) -> Value {
    let size = filter.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
    let size = size.clamp(1, MAX_PAGE_SIZE);
    let page = filter.page.unwrap_or(0);
    let start = page.saturating_mul(size);
    let shown = all.iter().skip(start).take(size);
    let more = all.len() > start.saturating_add(size);
    let next = more.then(|| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [("To", &filter.to), ("From", &filter.from)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("PageSize", &size.to_string());
        query.append_pair("Page", &page.saturating_add(1).to_string());
        let query = query.finish();
        format!("/2010-04-01/Accounts/{TWILIO_ACCOUNT_SID}/Messages.json?{query}")
    });
    json!({
        "messages": shown.map(|message| resource(message)).collect::<Vec<_>>(),
        "page": page,
        "page_size": size,
        "next_page_uri": next,
    })
}
