//! `POST /admin/outbox/…`: what operators change.

use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::info;
use uuid::Uuid;

use super::admin::{authorize, no_row};
use super::body::read_json;
use super::problem::Problem;
use super::query::{self, Query};
use super::state::AppState;
use super::views::RowBody;
use crate::payment::Status;
use crate::payment::request::Fault;
use crate::store::{Change, OutboxFilter};

/// Rows replayed in one transaction.
const STEP: i64 = 1000;

/// Body of a replay or cancel of one row.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OneBody {
    force: bool,
}

/// Body of a replay by filter: the list's filters, as the same strings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ManyBody {
    status: Option<String>,
    channel: Option<String>,
    event_type: Option<String>,
    payment_id: Option<String>,
    order_id: Option<String>,
    created_from: Option<String>,
    created_to: Option<String>,
    dry_run: bool,
    all: bool,
}

impl ManyBody {
    fn filter(&self) -> Result<OutboxFilter, Problem> {
        let mut filter = Query::from_fields([
            ("status", self.status.clone()),
            ("channel", self.channel.clone()),
            ("event_type", self.event_type.clone()),
            ("payment_id", self.payment_id.clone()),
            ("order_id", self.order_id.clone()),
            ("created_from", self.created_from.clone()),
            ("created_to", self.created_to.clone()),
        ])
        .outbox_filter()?;
        if filter.is_empty() && !self.all {
            return Err(fault("", "give at least one filter, or \"all\": true"));
        }
        let replayable = |status: &Status| matches!(status, Status::Failed | Status::Canceled);
        if !filter.statuses.iter().all(replayable) {
            return Err(fault(
                "/status",
                "only FAILED and CANCELED rows are replayed",
            ));
        }
        if filter.statuses.is_empty() {
            filter.statuses = vec![Status::Failed];
        }
        Ok(filter)
    }
}

/// `POST /admin/outbox/{id}/replay`: back to PENDING, due now.
pub async fn replay(
    state: web::Data<AppState>,
    http: HttpRequest,
    payload: web::Payload,
    id: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    authorize(&state, &http)?;
    let body: OneBody = optional_body(&state, &http, payload).await?;
    change(&state, &id, Change::Replay { force: body.force }).await
}

/// `POST /admin/outbox/{id}/cancel`: no further attempt.
pub async fn cancel(
    state: web::Data<AppState>,
    http: HttpRequest,
    payload: web::Payload,
    id: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    authorize(&state, &http)?;
    let body: OneBody = optional_body(&state, &http, payload).await?;
    change(&state, &id, Change::Cancel { force: body.force }).await
}

async fn change(state: &AppState, id: &str, change: Change) -> Result<HttpResponse, Problem> {
    let id = query::uuid(id).ok_or_else(no_row)?;
    let give_up = state.engine.give_up();
    let row = state
        .store
        .detached(move |store| async move {
            if !store.change(id, change, give_up).await? {
                return Ok(None);
            }
            store.outbox_row(id).await
        })
        .await?
        .ok_or_else(no_row)?;
    info!(outbox.id = %id, ?change, "an operator changed a row");
    ring(state);
    Ok(HttpResponse::Ok().json(RowBody::from(&row.row)))
}

/// `POST /admin/outbox/replay`: many rows, in steps of their own.
pub async fn replay_many(
    state: web::Data<AppState>,
    http: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    authorize(&state, &http)?;
    let body: ManyBody = parse(&read_json(&http, payload, &state.limits).await?)?;
    let filter = body.filter()?;
    let counted = filter.clone();
    let matched = state
        .store
        .detached(move |store| async move { store.matching(&counted).await })
        .await?;
    let replayed = if body.dry_run {
        0
    } else {
        replay_all(&state, filter).await?
    };
    Ok(HttpResponse::Ok().json(json!({ "matched": matched, "replayed": replayed })))
}

/// Each step goes on behind the last id of the one before, so a row that fails again meanwhile is
/// not taken twice.
async fn replay_all(state: &AppState, filter: OutboxFilter) -> Result<u64, Problem> {
    let give_up = state.engine.give_up();
    let mut after = Uuid::nil();
    let mut total = 0;
    loop {
        let filter = filter.clone();
        let step = state
            .store
            .detached(
                move |store| async move { store.replay_step(&filter, after, STEP, give_up).await },
            )
            .await?;
        let Some((last, replayed)) = step else { break };
        after = last;
        total += replayed;
        ring(state);
    }
    info!(rows = total, "an operator replayed rows");
    Ok(total)
}

fn ring(state: &AppState) {
    for lane in state.engine.lanes() {
        lane.ring();
    }
}

async fn optional_body<T: DeserializeOwned + Default>(
    state: &AppState,
    http: &HttpRequest,
    payload: web::Payload,
) -> Result<T, Problem> {
    let headers = http.headers();
    let empty = headers
        .get(CONTENT_LENGTH)
        .is_none_or(|length| length.as_bytes() == b"0")
        && !headers.contains_key(TRANSFER_ENCODING);
    if empty {
        return Ok(T::default());
    }
    parse(&read_json(http, payload, &state.limits).await?)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // serde would take an array for the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("the body must be a JSON object".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| {
        malformed(format!(
            "line {}, column {}: not JSON of the right shape; see the description of this route",
            error.line(),
            error.column()
        ))
    })
}

fn malformed(detail: String) -> Problem {
    Problem::MalformedBody(vec![Fault {
        pointer: String::new(),
        detail,
    }])
}

fn fault(pointer: &str, detail: &str) -> Problem {
    Problem::Invalid(vec![Fault {
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
    }])
}
