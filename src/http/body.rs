//! Reads a JSON request body within bounds of size and time.
//!
//! A refused body is still read to its end, up to a bound: a client that is busy writing would
//! otherwise see its connection reset and never the answer.

use std::time::Duration;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use actix_web::web::{Bytes, BytesMut, Payload};
use actix_web::{HttpMessage, HttpRequest};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::problem::Problem;

/// Bounds of a request body.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest body, in bytes.
    pub max_bytes: usize,
    /// How long the whole body may take.
    pub deadline: Duration,
    /// How many bytes of a refused body are read and thrown away.
    pub max_drained_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 65_536,
            deadline: Duration::from_secs(10),
            max_drained_bytes: 8 * 1024 * 1024,
        }
    }
}

/// Reads the whole body of a JSON request, as it was sent.
///
/// # Errors
/// [`Problem::UnsupportedMediaType`], [`Problem::BodyTooLarge`], [`Problem::Timeout`], or
/// [`Problem::IncompleteBody`] when the client hung up.
pub async fn read_json(
    request: &HttpRequest,
    mut payload: Payload,
    limits: &Limits,
) -> Result<Bytes, Problem> {
    let deadline = Instant::now() + limits.deadline;
    let result = match check_media_type(request) {
        Ok(()) => collect(request, &mut payload, limits, deadline).await,
        Err(problem) => Err(problem),
    };
    if matches!(
        result,
        Err(Problem::UnsupportedMediaType { .. } | Problem::BodyTooLarge { .. })
    ) {
        drain(&mut payload, limits.max_drained_bytes, deadline).await;
    }
    result
}

/// Whether the body is plain JSON in UTF-8.
fn check_media_type(request: &HttpRequest) -> Result<(), Problem> {
    if only_value(request.headers(), CONTENT_TYPE.as_str()).is_none() {
        return Err(unsupported(
            "send exactly one Content-Type: application/json",
        ));
    }
    let media_type = request.mime_type().ok().flatten();
    let Some(media_type) = media_type.filter(|found| found.essence_str() == "application/json")
    else {
        return Err(unsupported("the Content-Type must be application/json"));
    };
    let utf8 = media_type
        .get_param("charset")
        .is_none_or(|charset| charset.as_str().eq_ignore_ascii_case("utf-8"));
    if !utf8 {
        return Err(unsupported("the charset must be utf-8"));
    }
    let plain = request
        .headers()
        .get_all(CONTENT_ENCODING)
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if plain {
        Ok(())
    } else {
        Err(unsupported(
            "the body must not be compressed: leave out Content-Encoding",
        ))
    }
}

/// The value of a header that was sent exactly once.
fn only_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name);
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

fn unsupported(detail: &'static str) -> Problem {
    Problem::UnsupportedMediaType {
        detail: detail.into(),
    }
}

async fn collect(
    request: &HttpRequest,
    payload: &mut Payload,
    limits: &Limits,
    deadline: Instant,
) -> Result<Bytes, Problem> {
    let too_large = Problem::BodyTooLarge {
        limit: limits.max_bytes,
    };
    let announced = only_value(request.headers(), CONTENT_LENGTH.as_str())
        .and_then(|length| std::str::from_utf8(length).ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limits.max_bytes) {
        return Err(too_large);
    }
    let mut body = BytesMut::new();
    loop {
        let Ok(chunk) = timeout_at(deadline, payload.next()).await else {
            return Err(Problem::Timeout {
                limit: limits.deadline,
            });
        };
        match chunk {
            None => return Ok(body.freeze()),
            Some(Ok(chunk)) if body.len() + chunk.len() > limits.max_bytes => {
                return Err(too_large);
            }
            Some(Ok(chunk)) => body.extend_from_slice(&chunk),
            Some(Err(_)) => return Err(Problem::IncompleteBody),
        }
    }
}

/// Reads on until the end, the bound or the deadline, whichever comes first.
async fn drain(payload: &mut Payload, max_bytes: usize, deadline: Instant) {
    let mut drained: usize = 0;
    while drained < max_bytes {
        match timeout_at(deadline, payload.next()).await {
            Ok(Some(Ok(chunk))) => drained = drained.saturating_add(chunk.len()),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests;
