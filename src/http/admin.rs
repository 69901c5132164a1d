//! `/admin/outbox`: what operators read.

use actix_web::{HttpRequest, HttpResponse, web};

use super::cursor;
use super::problem::Problem;
use super::query::{self, OUTBOX_FILTERS, Query};
use super::state::AppState;
use super::views::{FullRowBody, Page, RowBody, StatsBody};

/// Lets through a request that carries the admin token. Without one configured, there is nothing
/// here at all.
///
/// # Errors
/// 404 or 401.
pub fn authorize(state: &AppState, http: &HttpRequest) -> Result<(), Problem> {
    match &state.admin_token {
        Some(token) => token.authenticate(http.headers()),
        None => Err(Problem::NotFound {
            detail: "there is nothing here".into(),
        }),
    }
}

/// No such row.
pub fn no_row() -> Problem {
    Problem::NotFound {
        detail: "there is no outbox row with this id".into(),
    }
}

/// `GET /admin/outbox`: a page of rows, newest first.
pub async fn list(state: web::Data<AppState>, http: HttpRequest) -> Result<HttpResponse, Problem> {
    authorize(&state, &http)?;
    let known = [&OUTBOX_FILTERS[..], &["limit", "cursor"]].concat();
    let query = Query::parse(http.query_string(), &known)?;
    let filter = query.outbox_filter()?;
    let limit = query.limit()?;
    let before = query.cursor()?;
    let rows = state
        .store
        .detached(move |store| async move { store.outbox_page(&filter, before, limit + 1).await })
        .await?;
    let (rows, next_cursor) =
        cursor::page(rows, usize::try_from(limit).unwrap_or(0), |(row, _)| {
            row.id.0
        });
    Ok(HttpResponse::Ok().json(Page {
        items: rows.iter().map(RowBody::from).collect(),
        next_cursor,
    }))
}

/// `GET /admin/outbox/{id}`: one row with its payload and history.
pub async fn show(
    state: web::Data<AppState>,
    http: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    authorize(&state, &http)?;
    let id = query::uuid(&id).ok_or_else(no_row)?;
    let row = state
        .store
        .detached(move |store| async move { store.outbox_row(id).await })
        .await?
        .ok_or_else(no_row)?;
    Ok(HttpResponse::Ok().json(FullRowBody::of(&row)))
}

/// `GET /admin/outbox/stats`: the outbox in numbers.
pub async fn stats(state: web::Data<AppState>, http: HttpRequest) -> Result<HttpResponse, Problem> {
    authorize(&state, &http)?;
    let stats = state
        .store
        .detached(|store| async move { store.stats().await })
        .await?;
    Ok(HttpResponse::Ok().json(StatsBody::from(&stats)))
}
