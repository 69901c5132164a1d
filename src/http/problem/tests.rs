#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;

use actix_web::body::to_bytes;
use serde_json::{Value, json};

use super::*;

fn fault(pointer: &str, detail: &str) -> Fault {
    Fault {
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
    }
}

type Row = (
    Problem,
    u16,
    &'static str,
    Option<(&'static str, &'static str)>,
);

/// One of each, with its status, id and the header that comes with it.
fn table() -> Vec<Row> {
    let second = Duration::from_secs(1);
    vec![
        (
            Problem::MalformedBody(vec![fault("", "x")]),
            400,
            "malformed-body",
            None,
        ),
        (Problem::IncompleteBody, 400, "incomplete-body", None),
        (
            Problem::BadHeader {
                name: "Idempotency-Key",
                detail: "x".into(),
            },
            400,
            "bad-header",
            None,
        ),
        (
            Problem::BadParameter {
                name: "limit".into(),
                detail: "x".into(),
            },
            400,
            "bad-parameter",
            None,
        ),
        (
            Problem::Unauthorized,
            401,
            "unauthorized",
            Some(("www-authenticate", "Bearer")),
        ),
        (
            Problem::NotFound { detail: "x".into() },
            404,
            "not-found",
            None,
        ),
        (
            Problem::MethodNotAllowed {
                allow: "GET, POST".into(),
            },
            405,
            "method-not-allowed",
            Some(("allow", "GET, POST")),
        ),
        (
            Problem::Timeout { limit: 10 * second },
            408,
            "timeout",
            None,
        ),
        (
            Problem::Conflict {
                detail: "x".into(),
                retry_after: None,
            },
            409,
            "conflict",
            None,
        ),
        (
            Problem::Conflict {
                detail: "x".into(),
                retry_after: Some(Duration::from_millis(1500)),
            },
            409,
            "conflict",
            Some(("retry-after", "2")),
        ),
        (
            Problem::BodyTooLarge { limit: 65_536 },
            413,
            "body-too-large",
            None,
        ),
        (
            Problem::UnsupportedMediaType { detail: "x".into() },
            415,
            "unsupported-media-type",
            None,
        ),
        (
            Problem::Invalid(vec![fault("/amount", "x")]),
            422,
            "invalid",
            None,
        ),
        (
            Problem::IdempotencyKeyReused,
            422,
            "idempotency-key-reused",
            None,
        ),
        (Problem::Internal, 500, "internal", None),
        (
            Problem::Unavailable {
                retry_after: second,
            },
            503,
            "unavailable",
            Some(("retry-after", "1")),
        ),
    ]
}

async fn document(problem: &Problem) -> Value {
    let body = to_bytes(problem.error_response().into_body())
        .await
        .unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[actix_web::test]
async fn each_has_its_status_type_and_headers() {
    for (problem, status, id, expected) in table() {
        let response = problem.error_response();
        assert_eq!(response.status().as_u16(), status, "{problem:?}");
        let header = |name: &str| response.headers().get(name).map(|v| v.to_str().unwrap());
        assert_eq!(header("content-type"), Some(MEDIA_TYPE));
        for name in ["www-authenticate", "allow", "retry-after"] {
            let wanted = expected
                .filter(|(known, _)| *known == name)
                .map(|(_, value)| value);
            assert_eq!(header(name), wanted, "{problem:?} {name}");
        }
        let document = document(&problem).await;
        assert_eq!(document["type"], format!("urn:paybell:problem:{id}"));
        assert_eq!(document["status"], status);
        assert!(!document["title"].as_str().unwrap().is_empty());
        assert!(!document["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn no_two_share_an_id() {
    let ids: HashSet<_> = table().iter().map(|(problem, ..)| problem.id()).collect();
    // Only the conflict is in the table twice.
    assert_eq!(ids.len(), table().len() - 1);
}

#[actix_web::test]
async fn faults_are_listed_with_their_pointers() {
    let faults = vec![
        fault("/amount", "is 0"),
        fault("/notifications/0/to", "is empty"),
    ];
    let document = document(&Problem::Invalid(faults)).await;
    assert_eq!(
        document["errors"],
        json!([
            { "pointer": "/amount", "detail": "is 0" },
            { "pointer": "/notifications/0/to", "detail": "is empty" },
        ])
    );
    assert_eq!(document["detail"], "2 faults were found, see errors");
}

#[actix_web::test]
async fn only_faults_have_an_errors_member() {
    for (problem, ..) in table() {
        let has_errors = document(&problem).await.get("errors").is_some();
        assert_eq!(has_errors, !problem.errors().is_empty(), "{problem:?}");
    }
}

#[test]
fn logs_see_the_kind_and_not_what_was_sent() {
    let problem = Problem::Invalid(vec![fault("/order_id", "secret")]);
    assert_eq!(problem.to_string(), "The request is against the rules");
}

#[test]
fn the_worst_fault_decides_the_class() {
    use crate::payment::{Channel, Locale, recipient::Region, request};
    let rules = request::Rules {
        region: Region::KR,
        default_locale: Locale::Ko,
        channels: Channel::ALL.to_vec(),
        sms_text: Default::default(),
    };
    let problem = |body: &str| Problem::from(request::parse(body.as_bytes(), &rules).unwrap_err());
    assert!(matches!(problem("{"), Problem::MalformedBody(faults) if faults.len() == 1));
    assert!(matches!(problem("{}"), Problem::Invalid(faults) if faults.len() == 4));
    assert!(matches!(problem(r#"{"x":1}"#), Problem::MalformedBody(faults) if faults.len() == 5));
}
