//! `/health` and `/metrics`: what machines look at.

use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};
use tracing::error;

use super::problem::Problem;
use super::state::AppState;
use crate::outbox::LaneStatus;

/// A lane's loop turns at every poll; one that stood still this long is not well.
const STANDSTILL: Duration = Duration::from_secs(90);

/// `GET /health/live`: the process answers. It hangs on nothing else, so that no outage of a
/// database restarts every instance at once.
pub async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "live" }))
}

/// `GET /health/ready`: whether to send traffic here, each part named. A provider's trouble is
/// shown and never flips it: payments can be recorded all the same.
pub async fn ready(state: web::Data<AppState>) -> HttpResponse {
    let database = state
        .store
        .detached(|store| async move { store.ping().await })
        .await;
    let delivery = state.engine.lanes().iter().all(turns);
    let is_ready = database.is_ok() && delivery && !state.is_stopping();
    let body = json!({
        "status": match (is_ready, state.is_stopping()) {
            (true, _) => "ready",
            (false, true) => "stopping",
            (false, false) => "not_ready",
        },
        "database": {
            "status": up(database.is_ok()),
            "detail": database.err().map(|fault| fault.to_string()),
        },
        "delivery": {
            "status": up(delivery),
            "lanes": state.engine.lanes().iter().map(lane).collect::<Vec<_>>(),
        },
    });
    if is_ready {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

fn up(well: bool) -> &'static str {
    if well { "up" } else { "down" }
}

fn turns(lane: &LaneStatus) -> bool {
    lane.metrics.since_last_turn() < STANDSTILL
}

fn lane(lane: &LaneStatus) -> Value {
    let trouble = lane.metrics.trouble();
    json!({
        "channel": lane.channel,
        "provider": lane.provider,
        "status": up(turns(lane)),
        "provider_status": if trouble.is_some() { "failing" } else { "ok" },
        "failures_in_a_row": trouble.as_ref().map_or(0, |trouble| trouble.failures),
        "last_error": trouble.map(|trouble| trouble.last_error),
        "breaker": lane.breaker().as_str(),
        "seconds_since_last_poll": lane.metrics.since_last_poll().as_secs_f64(),
    })
}

/// `GET /metrics`: Prometheus text. A database that is away costs the figures of its rows, not the
/// others.
pub async fn metrics(state: web::Data<AppState>) -> Result<HttpResponse, Problem> {
    let stats = state
        .store
        .detached(|store| async move { store.stats().await })
        .await;
    match stats {
        Ok(stats) => state.metrics.observe(&stats),
        Err(fault) => tracing::warn!(%fault, "the figures of rows are those of the last scrape"),
    }
    let text = state.metrics.encode().map_err(|fault| {
        error!(%fault, "the metrics cannot be written");
        Problem::Internal
    })?;
    Ok(HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .body(text))
}
