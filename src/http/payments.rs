//! `/payments`: what clients use.

use std::sync::Arc;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use chrono::Utc;
use tracing::{Span, error};
use uuid::Uuid;

use super::body::read_json;
use super::cursor;
use super::keys::idempotency_key;
use super::problem::Problem;
use super::query::{self, Query};
use super::state::{AppState, unavailable};
use super::views::{Page, PaymentBody};
use crate::outbox::RecordError;
use crate::outbox::recorder::Order;
use crate::payment::Payment;
use crate::payment::request::{self, PaymentRequest};
use crate::store::{Idempotency, StoreError, Verdict};

const REPLAYED: &str = "Idempotent-Replayed";

/// `POST /payments`: commits the payment with its outbox rows, then answers.
pub async fn post(
    state: web::Data<AppState>,
    http: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let client = state.api_keys.authenticate(http.headers())?.to_owned();
    let key = idempotency_key(http.headers());
    let body = read_json(&http, payload, &state.limits).await?;
    let key = key?;
    let request = request::parse(&body, &state.rules)?;
    let idempotency = key.map(|key| Idempotency {
        key,
        fingerprint: request.fingerprint,
    });
    let payment = approve(request, &client);
    Span::current().record("payment.id", tracing::field::display(payment.id));
    let response = json(&PaymentBody::from(payment.as_ref()))?;
    let answer = response.clone();
    let verdict = state
        .engine
        .record(|reply| Order {
            payment: Arc::clone(&payment),
            idempotency,
            response,
            reply,
        })
        .await;
    match verdict.map_err(refusal)? {
        Verdict::Recorded => Ok(created(&payment.id.to_string(), answer, false)),
        Verdict::Replayed(first) => {
            let id = first_id(&first);
            Ok(created(&id, first, true))
        }
        Verdict::KeyReused => Err(Problem::IdempotencyKeyReused),
    }
}

/// Ids come from the clock of this process; only the database's is ever compared.
fn approve(request: PaymentRequest, client: &str) -> Arc<Payment> {
    let payment = request.approve(client, Uuid::now_v7(), Utc::now(), Uuid::now_v7);
    Arc::new(payment)
}

fn refusal(fault: RecordError) -> Problem {
    match fault {
        RecordError::Store(fault @ (StoreError::Data(_) | StoreError::Failed(_))) => {
            error!(%fault, "a valid payment was not recorded");
            Problem::Internal
        }
        RecordError::Overloaded | RecordError::Late | RecordError::Store(_) => unavailable(),
    }
}

fn created(id: &str, body: Bytes, replayed: bool) -> HttpResponse {
    let mut response = HttpResponse::Created();
    response.insert_header((header::LOCATION, format!("/payments/{id}")));
    if replayed {
        response.insert_header((REPLAYED, "true"));
    }
    response.content_type("application/json").body(body)
}

/// The id in a stored answer.
fn first_id(answer: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Identified {
        id: String,
    }
    serde_json::from_slice::<Identified>(answer).map_or_else(|_| String::new(), |found| found.id)
}

/// `GET /payments/{id}`: the payment as it stands now.
pub async fn get(
    state: web::Data<AppState>,
    http: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let client = state.api_keys.authenticate(http.headers())?.to_owned();
    let not_found = || Problem::NotFound {
        detail: "there is no payment with this id".into(),
    };
    let id = query::uuid(&id).ok_or_else(not_found)?;
    let found = state
        .store
        .detached(move |store| async move { store.payment(client, id).await })
        .await?;
    let found = found.ok_or_else(not_found)?;
    Ok(HttpResponse::Ok().json(PaymentBody::from(&found)))
}

/// `GET /payments?order_id=…`: a client's payments of one order, newest first.
pub async fn list(state: web::Data<AppState>, http: HttpRequest) -> Result<HttpResponse, Problem> {
    let client = state.api_keys.authenticate(http.headers())?.to_owned();
    let query = Query::parse(http.query_string(), &["order_id", "limit", "cursor"])?;
    let order_id = query
        .text("order_id")
        .and_then(query::label)
        .ok_or_else(|| Problem::BadParameter {
            name: "order_id".into(),
            detail: "is required, 1 to 128 characters".into(),
        })?;
    let limit = query.limit()?;
    let before = query.cursor()?;
    let found = state
        .store
        .detached(move |store| async move {
            store
                .payments_of_order(client, order_id, before, limit + 1)
                .await
        })
        .await?;
    let (found, next_cursor) = cursor::page(
        found,
        usize::try_from(limit).unwrap_or(0),
        |(payment, _)| payment.id.0,
    );
    Ok(HttpResponse::Ok().json(Page {
        items: found.iter().map(PaymentBody::from).collect(),
        next_cursor,
    }))
}

fn json(body: &PaymentBody<'_>) -> Result<Bytes, Problem> {
    match serde_json::to_vec(body) {
        Ok(bytes) => Ok(bytes.into()),
        Err(fault) => {
            error!(%fault, "an answer cannot be written");
            Err(Problem::Internal)
        }
    }
}
