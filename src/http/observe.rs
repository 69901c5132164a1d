//! A span and a figure for each request. Neither names what the caller sent: only the route's
//! pattern, so that scanners make no new label and no query string reaches the log.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::{Error, web};
use tracing::field::Empty;
use tracing::{Span, debug, info_span};
use tracing_actix_web::RootSpanBuilder;
use uuid::Uuid;

use super::state::AppState;

/// Every route pattern of this service.
const ROUTES: [&str; 11] = [
    "/payments",
    "/payments/{id}",
    "/admin/outbox",
    "/admin/outbox/stats",
    "/admin/outbox/replay",
    "/admin/outbox/{id}",
    "/admin/outbox/{id}/replay",
    "/admin/outbox/{id}/cancel",
    "/health/live",
    "/health/ready",
    "/metrics",
];

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Builds the spans.
pub struct RequestSpan;

impl RootSpanBuilder for RequestSpan {
    fn on_request_start(request: &ServiceRequest) -> Span {
        info_span!(
            "request",
            request.id = %Uuid::now_v7(),
            http.method = method(request.method().as_str()),
            http.route = Empty,
            http.status = Empty,
            payment.id = Empty,
        )
    }

    fn on_request_end<B: MessageBody>(span: Span, outcome: &Result<ServiceResponse<B>, Error>) {
        let Ok(response) = outcome else { return };
        let request = response.request();
        let route = route(request.match_pattern().as_deref());
        let status = response.status().as_u16();
        span.record("http.route", route);
        span.record("http.status", status);
        span.in_scope(|| debug!("answered"));
        if let Some(state) = request.app_data::<web::Data<AppState>>() {
            let method = method(request.method().as_str());
            state.metrics.request(method, route, status);
        }
    }
}

fn route(pattern: Option<&str>) -> &'static str {
    ROUTES
        .into_iter()
        .find(|route| pattern == Some(*route))
        .unwrap_or("unmatched")
}

fn method(name: &str) -> &'static str {
    METHODS
        .into_iter()
        .find(|method| *method == name)
        .unwrap_or("other")
}
