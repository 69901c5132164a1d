//! What all dialects share: a well-formed request meets the behaviour that is set for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures_util::stream;
use serde_json::Value;

use super::behavior::{Behavior, Fault, Target};
use super::reset;
use super::state::{Accepted, State};

/// How a dialect says yes and no.
#[derive(Clone, Copy)]
pub(super) struct Dialect {
    pub(super) target: Target,
    /// The usual status for an accepted message.
    pub(super) accepted: StatusCode,
    /// The usual body for an accepted message.
    pub(super) yes: fn(&Accepted) -> Value,
    /// Whether a body means that the message was accepted.
    pub(super) is_yes: fn(&Value) -> bool,
    /// The usual body for an error status.
    pub(super) no: fn(StatusCode) -> Value,
}

/// Answers a well-formed message as the behaviour that is set for it says.
pub(super) async fn receive(
    state: web::Data<State>,
    request: &HttpRequest,
    message: Accepted,
    dialect: Dialect,
) -> HttpResponse {
    let Some(mut behavior) = state.request(dialect.target, Some(&message.to)) else {
        let accepted = state.accept(message);
        return HttpResponse::build(dialect.accepted).json((dialect.yes)(&accepted));
    };
    behavior.status.get_or_insert(dialect.accepted.as_u16());
    let accepted = if behavior.fault == Some(Fault::LateAccept) {
        late_accept(&state, &behavior, message).await
    } else {
        wait(&behavior).await;
        stores(&behavior, dialect).then(|| state.accept(message))
    };
    if let Some(answer) = faulty(&behavior, request).await {
        return answer;
    }
    answer(&behavior, || match accepted {
        Some(accepted) => (dialect.yes)(&accepted),
        None => (dialect.no)(behavior.status()),
    })
}

/// Answers a look-up as the behaviour that is set for it says, else as `usual` does.
pub(super) async fn look_up(
    state: &State,
    request: &HttpRequest,
    to: Option<&str>,
    usual: impl FnOnce() -> HttpResponse,
) -> HttpResponse {
    let Some(behavior) = state.request(Target::SmsLookup, to) else {
        return usual();
    };
    wait(&behavior).await;
    if let Some(answer) = faulty(&behavior, request).await {
        return answer;
    }
    if behavior.status.is_none() && behavior.body.is_none() {
        return usual();
    }
    answer(&behavior, || Value::Null)
}

/// Answers a request that carries no message; `body` makes what a 200 or an error says.
pub(super) async fn plain(
    request: &HttpRequest,
    behavior: &Behavior,
    body: impl FnOnce(&Behavior) -> Value,
) -> HttpResponse {
    wait(behavior).await;
    match faulty(behavior, request).await {
        Some(answer) => answer,
        None => head(behavior).json(body(behavior)),
    }
}

/// Stores the message after the latency in a task of its own, which outlives the client's
/// connection.
async fn late_accept(
    state: &web::Data<State>,
    behavior: &Behavior,
    message: Accepted,
) -> Option<Arc<Accepted>> {
    let state = state.clone();
    let behavior = behavior.clone();
    let task = actix_web::rt::spawn(async move {
        wait(&behavior).await;
        state.accept(message)
    });
    task.await.ok()
}

async fn wait(behavior: &Behavior) {
    if behavior.latency_ms > 0 {
        tokio::time::sleep(Duration::from_millis(behavior.latency_ms)).await;
    }
}

fn stores(behavior: &Behavior, dialect: Dialect) -> bool {
    match behavior.fault {
        Some(fault) => fault.stores(),
        None => {
            let says_yes = behavior.body.as_ref().is_none_or(dialect.is_yes);
            behavior.status().is_success() && says_yes
        }
    }
}

/// The answers that have nothing to do with messages; `None` for the others.
async fn faulty(behavior: &Behavior, request: &HttpRequest) -> Option<HttpResponse> {
    match behavior.fault? {
        Fault::Hang | Fault::AcceptThenHang => match hang().await {},
        Fault::Reset | Fault::AcceptThenReset => Some(reset::respond(request)),
        Fault::NotJson => Some(not_json(behavior)),
        Fault::EndlessBody => Some(endless(behavior)),
        Fault::LateAccept => None,
    }
}

fn answer(behavior: &Behavior, usual: impl FnOnce() -> Value) -> HttpResponse {
    let mut answer = head(behavior);
    match &behavior.body {
        _ if behavior.status() == StatusCode::NO_CONTENT => answer.finish(),
        Some(body) => answer.json(body),
        None => answer.json(usual()),
    }
}

fn head(behavior: &Behavior) -> HttpResponseBuilder {
    let mut answer = HttpResponse::build(behavior.status());
    for (name, value) in &behavior.headers {
        answer.insert_header((name.as_str(), value.as_str()));
    }
    answer
}

fn not_json(behavior: &Behavior) -> HttpResponse {
    head(behavior)
        .insert_header((CONTENT_TYPE, "text/html"))
        .body("<html><body><h1>Something went wrong</h1></body></html>")
}

fn endless(behavior: &Behavior) -> HttpResponse {
    const FIRST: Bytes = Bytes::from_static(b"{\"message\":\"");
    const REST: Bytes = Bytes::from_static(&[b'x'; 16 * 1024]);
    let chunks = std::iter::once(FIRST).chain(std::iter::repeat(REST));
    head(behavior)
        .insert_header((CONTENT_TYPE, "application/json"))
        .streaming(stream::iter(chunks.map(Ok::<_, Infallible>)))
}

/// Never returns; the server drops it when the client leaves.
async fn hang() -> Infallible {
    std::future::pending().await
}
