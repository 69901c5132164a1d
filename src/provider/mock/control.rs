//! The control routes under `/mock`.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::behavior::{Behavior, Target};
use super::state::{State, same_recipient};
use crate::payment::Channel;

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.service(
        web::scope("/mock")
            .service(
                web::resource("/messages")
                    .route(web::get().to(messages))
                    .route(web::delete().to(forget)),
            )
            .service(
                web::resource("/behavior/{target}")
                    .route(web::put().to(set_behavior))
                    .route(web::delete().to(clear_behavior)),
            ),
    );
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    channel: Option<String>,
    to: Option<String>,
}

async fn messages(state: web::Data<State>, query: web::Query<Value>) -> HttpResponse {
    let filter = match serde_json::from_value::<Filter>(query.into_inner()) {
        Ok(filter) => filter,
        Err(error) => {
            let detail = format!("the query takes channel and to: {error}");
            return problem(StatusCode::BAD_REQUEST, &detail);
        }
    };
    let channel = match filter.channel.as_deref().map(str::parse::<Channel>) {
        None => None,
        Some(Ok(channel)) => Some(channel),
        Some(Err(error)) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let wanted = state.messages(|message| {
        channel.is_none_or(|channel| message.channel == channel)
            && filter
                .to
                .as_ref()
                .is_none_or(|to| same_recipient(to, &message.to))
    });
    let list = wanted.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    HttpResponse::Ok().json(list)
}

async fn forget(state: web::Data<State>) -> HttpResponse {
    state.forget_messages();
    HttpResponse::NoContent().finish()
}

async fn set_behavior(
    state: web::Data<State>,
    target: web::Path<String>,
    body: web::Bytes,
) -> HttpResponse {
    let Some(target) = find(&target) else {
        return unknown(&target);
    };
    let behavior = match serde_json::from_slice::<Behavior>(&body) {
        Ok(behavior) => behavior,
        Err(error) => {
            let detail = format!("the behaviour cannot be read: {error}");
            return problem(StatusCode::BAD_REQUEST, &detail);
        }
    };
    if let Err(error) = behavior.check(target) {
        return problem(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string());
    }
    state.set_behavior(target, behavior);
    HttpResponse::NoContent().finish()
}

async fn clear_behavior(state: web::Data<State>, target: web::Path<String>) -> HttpResponse {
    let Some(target) = find(&target) else {
        return unknown(&target);
    };
    state.clear_behavior(target);
    HttpResponse::NoContent().finish()
}

fn find(name: &str) -> Option<Target> {
    let mut all = Target::ALL.iter();
    all.find(|(known, _)| *known == name)
        .map(|(_, target)| *target)
}

fn unknown(name: &str) -> HttpResponse {
    let known = Target::ALL.map(|(name, _)| name).join(", ");
    let detail = format!("no behaviour can be set for {name:?}: use one of {known}");
    problem(StatusCode::NOT_FOUND, &detail)
}

fn problem(status: StatusCode, detail: &str) -> HttpResponse {
    HttpResponse::build(status)
        .content_type("application/problem+json")
        .json(json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        }))
}
