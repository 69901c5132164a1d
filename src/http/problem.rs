//! Every way in which this service says no, as `application/problem+json` (RFC 9457).
//!
//! To add one: a variant, and the compiler asks for its id, title, status and detail.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use crate::payment::request::{Fault, Faults};

/// Media type of an answer that reports a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal. What it carries is shown to the client: no secret and no cause of a 500 belongs here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// 400: the body is not JSON of the right shape.
    MalformedBody(Vec<Fault>),
    /// 400: the body ended before it was complete.
    IncompleteBody,
    /// 400: a request header cannot be understood.
    BadHeader {
        /// Name of the header.
        name: &'static str,
        /// What is wrong and how to mend it.
        detail: Cow<'static, str>,
    },
    /// 400: a filter, limit or cursor of the query, or an id in the path, cannot be understood.
    BadParameter {
        /// Name of the parameter.
        name: Cow<'static, str>,
        /// What is wrong and how to mend it.
        detail: Cow<'static, str>,
    },
    /// 401: no credentials, or wrong ones; which of the two is not told.
    Unauthorized,
    /// 404: nothing here, or nothing that this client may see.
    NotFound {
        /// What is not there.
        detail: Cow<'static, str>,
    },
    /// 405: the resource has other methods.
    MethodNotAllowed {
        /// Value of `Allow`, for example `GET, POST`.
        allow: Cow<'static, str>,
    },
    /// 408: the request was not complete in time.
    Timeout {
        /// The time that it had.
        limit: Duration,
    },
    /// 409: the resource is in a state that does not allow this.
    Conflict {
        /// Which state, and what would help.
        detail: Cow<'static, str>,
        /// When a repeat makes sense.
        retry_after: Option<Duration>,
    },
    /// 413: the body is too large.
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// 415: the body is of another type, charset or encoding than this service reads.
    UnsupportedMediaType {
        /// What it must be.
        detail: Cow<'static, str>,
    },
    /// 422: well-formed, but against the rules.
    Invalid(Vec<Fault>),
    /// 422: the idempotency key belongs to another request.
    IdempotencyKeyReused,
    /// 500: a fault of ours; the cause is in the log, not here.
    Internal,
    /// 503: the database cannot be reached in time, or the commit failed.
    Unavailable {
        /// When a repeat makes sense.
        retry_after: Duration,
    },
}

/// The answer's body.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: Cow<'a, str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    /// Stable identifier; the last part of the answer's `type`, and a metric label.
    pub fn id(&self) -> &'static str {
        match self {
            Self::MalformedBody(_) => "malformed-body",
            Self::IncompleteBody => "incomplete-body",
            Self::BadHeader { .. } => "bad-header",
            Self::BadParameter { .. } => "bad-parameter",
            Self::Unauthorized => "unauthorized",
            Self::NotFound { .. } => "not-found",
            Self::MethodNotAllowed { .. } => "method-not-allowed",
            Self::Timeout { .. } => "timeout",
            Self::Conflict { .. } => "conflict",
            Self::BodyTooLarge { .. } => "body-too-large",
            Self::UnsupportedMediaType { .. } => "unsupported-media-type",
            Self::Invalid(_) => "invalid",
            Self::IdempotencyKeyReused => "idempotency-key-reused",
            Self::Internal => "internal",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// Short summary that is the same for every occurrence.
    pub fn title(&self) -> &'static str {
        match self {
            Self::MalformedBody(_) => "The request body is malformed",
            Self::IncompleteBody => "The request body is incomplete",
            Self::BadHeader { .. } => "A request header is not valid",
            Self::BadParameter { .. } => "A request parameter is not valid",
            Self::Unauthorized => "Valid credentials are required",
            Self::NotFound { .. } => "Not found",
            Self::MethodNotAllowed { .. } => "The method is not allowed here",
            Self::Timeout { .. } => "The request took too long",
            Self::Conflict { .. } => "The current state does not allow this",
            Self::BodyTooLarge { .. } => "The request body is too large",
            Self::UnsupportedMediaType { .. } => "The request body is of an unsupported type",
            Self::Invalid(_) => "The request is against the rules",
            Self::IdempotencyKeyReused => "The idempotency key was used with another request",
            Self::Internal => "Internal error",
            Self::Unavailable { .. } => "The service is not available right now",
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::MalformedBody(_)
            | Self::IncompleteBody
            | Self::BadHeader { .. }
            | Self::BadParameter { .. } => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Timeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid(_) | Self::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What happened this time, and how to mend it.
    fn detail(&self) -> Cow<'_, str> {
        match self {
            Self::MalformedBody(faults) | Self::Invalid(faults) => match faults.as_slice() {
                [only] => format!("{}: {}", pointed(&only.pointer), only.detail).into(),
                several => format!("{} faults were found, see errors", several.len()).into(),
            },
            Self::IncompleteBody => "the connection ended before the whole body had come".into(),
            Self::BadHeader { name, detail } => format!("{name}: {detail}").into(),
            Self::BadParameter { name, detail } => format!("{name}: {detail}").into(),
            Self::Unauthorized => "send Authorization: Bearer with a valid key, once".into(),
            Self::NotFound { detail }
            | Self::Conflict { detail, .. }
            | Self::UnsupportedMediaType { detail } => detail.as_ref().into(),
            Self::MethodNotAllowed { allow } => format!("allowed are: {allow}").into(),
            Self::Timeout { limit } => {
                format!("the whole request must arrive within {} s", seconds(*limit)).into()
            }
            Self::BodyTooLarge { limit } => {
                format!("the body may have at most {limit} bytes").into()
            }
            Self::IdempotencyKeyReused => {
                "repeat the first request unchanged, or use a new key for a new payment".into()
            }
            Self::Internal => "the fault is on our side and has been logged".into(),
            Self::Unavailable { .. } => {
                "try again a little later; repeat a POST with the same Idempotency-Key, as it may \
                 have been recorded"
                    .into()
            }
        }
    }

    fn errors(&self) -> &[Fault] {
        match self {
            Self::MalformedBody(faults) | Self::Invalid(faults) => faults,
            _ => &[],
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Conflict { retry_after, .. } => *retry_after,
            Self::Unavailable { retry_after } => Some(*retry_after),
            _ => None,
        }
    }
}

/// A pointer as a sentence can start with it.
fn pointed(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the body"
    } else {
        pointer
    }
}

/// Whole seconds, rounded up: a client that waits this long has waited long enough.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl From<Faults> for Problem {
    fn from(faults: Faults) -> Self {
        if faults.is_malformed() {
            Self::MalformedBody(faults.into_vec())
        } else {
            Self::Invalid(faults.into_vec())
        }
    }
}

impl fmt::Display for Problem {
    /// For logs: what kind it is, without what the client sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl std::error::Error for Problem {}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.status()
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let mut response = HttpResponse::build(self.status());
        if let Some(after) = self.retry_after() {
            response.insert_header((header::RETRY_AFTER, seconds(after).to_string()));
        }
        match self {
            Self::Unauthorized => {
                response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
            }
            Self::MethodNotAllowed { allow } => {
                response.insert_header((header::ALLOW, allow.as_ref()));
            }
            // What is left of the request would be read as the next one.
            Self::Timeout { .. } | Self::IncompleteBody => {
                response.force_close();
            }
            _ => {}
        }
        response.content_type(MEDIA_TYPE).json(Document {
            kind: format!("urn:paybell:problem:{}", self.id()),
            title: self.title(),
            status: self.status().as_u16(),
            detail: self.detail(),
            errors: self.errors(),
        })
    }
}

#[cfg(test)]
mod tests;
