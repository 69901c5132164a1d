//! A signed request for an access token, exchanged at the key's token endpoint.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::key::ServiceAccount;
use super::token::{Exchange, Grant, TokenError};
use crate::provider::client::{Client, Failure, Reply};
use crate::provider::redact::Redactor;

/// RFC 7523, 2.1.
pub(crate) const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Google's tokens live this long, and no more is believed.
const MAX_LIFE: Duration = Duration::from_secs(3_600);

/// A token whose life is not told: the server decides when it is over, so ask again soon.
const UNTOLD_LIFE: Duration = Duration::from_secs(300);

/// A token that is said to be over already may still be taken by a server with another clock.
const MIN_LIFE: Duration = Duration::from_secs(1);

/// The OAuth error that Google's own clients try again.
/// Source: <https://github.com/googleapis/google-auth-library-python> `_client.py`
const INTERNAL_FAILURE: &str = "internal_failure";

/// Asks the token endpoint of a service account.
pub(super) struct GoogleExchange {
    pub(super) account: ServiceAccount,
    pub(super) client: Arc<Client>,
}

#[async_trait]
impl Exchange for GoogleExchange {
    async fn exchange(&self) -> Result<Grant, TokenError> {
        let assertion = self
            .account
            .assertion(Utc::now())
            .map_err(|error| TokenError::unavailable(error.to_string()))?;
        let form = [
            ("grant_type", GRANT_TYPE),
            ("assertion", assertion.expose_secret()),
        ];
        let url = self.account.token_uri().clone();
        let result = self.client.call(|http| http.post(url).form(&form)).await;
        judge(&result, &assertion)
    }
}

/// What an answer of the token endpoint means. Asking for a token changes nothing, so a request
/// that was not answered may simply be made again.
fn judge(result: &Result<Reply, Failure>, assertion: &SecretString) -> Result<Grant, TokenError> {
    let redactor = || Redactor::default().with_secret(assertion.expose_secret());
    let reply = match result {
        Ok(reply) => reply,
        Err(Failure::NotSent(text) | Failure::Unanswered(text)) => {
            return Err(TokenError::unavailable(redactor().text(text)));
        }
    };
    let json = reply.json();
    if (200..=299).contains(&reply.status) {
        // The answer is never quoted: it may hold a token in a place where none was looked for.
        let grant = json.as_ref().and_then(grant);
        return grant.ok_or_else(|| TokenError::Unavailable {
            http_status: Some(reply.status),
            text: "the token endpoint's answer holds no bearer token".to_owned(),
            retry_after: reply.retry_after,
        });
    }
    let redactor = redactor().with_credentials(&reply.credentials);
    let text = redactor.text(&words(reply, json.as_ref()));
    let http_status = Some(reply.status);
    let internal = json.is_some_and(|json| json["error"] == INTERNAL_FAILURE);
    Err(match reply.status {
        _ if internal => TokenError::Unavailable {
            http_status,
            text,
            retry_after: reply.retry_after,
        },
        // A redirect is not followed, the key's token_uri is what was configured.
        300..=407 | 409..=424 | 426..=428 | 430..=499 => TokenError::Refused { http_status, text },
        _ => TokenError::Unavailable {
            http_status,
            text,
            retry_after: reply.retry_after,
        },
    })
}

/// RFC 6749, 5.1.
fn grant(json: &Value) -> Option<Grant> {
    let token = json["access_token"].as_str()?;
    let sendable = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let bearer = match &json["token_type"] {
        Value::Null => true,
        kind => kind.as_str()?.eq_ignore_ascii_case("bearer"),
    };
    (sendable && bearer).then(|| Grant {
        token: token.into(),
        life: life(&json["expires_in"]),
    })
}

/// Seconds, which some servers write as text or with a fraction.
fn life(expires_in: &Value) -> Duration {
    let secs = match expires_in {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    match secs {
        Some(secs) if secs.is_nan() => UNTOLD_LIFE,
        Some(secs) => Duration::try_from_secs_f64(secs.max(0.0))
            .unwrap_or(MAX_LIFE)
            .clamp(MIN_LIFE, MAX_LIFE),
        None => UNTOLD_LIFE,
    }
}

/// The OAuth error and its description, else whatever was sent.
fn words(reply: &Reply, json: Option<&Value>) -> String {
    let part = |name: &str| json.and_then(|json| json[name].as_str());
    match (part("error"), part("error_description")) {
        (Some(error), Some(description)) => format!("{error}: {description}"),
        (Some(error), None) => error.to_owned(),
        (None, _) => reply.text(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::client::Credentials;

    fn judged(status: u16, body: &str) -> Result<Grant, TokenError> {
        let reply = Reply {
            status,
            retry_after: None,
            body: body.as_bytes().to_vec(),
            broken: None,
            credentials: Credentials::default(),
        };
        judge(&Ok(reply), &"eyJhbGci.eyJpc3Mi.c2lnbmF0dXJl".into())
    }

    #[test]
    fn every_answer_has_its_meaning() {
        let refused = [300, 302, 400, 401, 403, 404, 407, 410, 428, 499];
        let unavailable = [408, 425, 429, 500, 502, 503, 504, 599];
        for status in refused {
            let error = judged(status, r#"{"error":"invalid_grant"}"#).err();
            assert!(
                matches!(error, Some(TokenError::Refused { .. })),
                "{status}"
            );
        }
        for status in unavailable {
            let error = judged(status, "<html>busy</html>").err();
            assert!(
                matches!(error, Some(TokenError::Unavailable { .. })),
                "{status}"
            );
        }
        let error = judged(400, r#"{"error":"internal_failure"}"#).err();
        assert!(matches!(error, Some(TokenError::Unavailable { .. })));
        for failure in [
            Failure::NotSent("x".into()),
            Failure::Unanswered("x".into()),
        ] {
            let error = judge(&Err(failure), &"a.b.c".into()).err();
            assert!(matches!(error, Some(TokenError::Unavailable { .. })));
        }
    }

    #[test]
    fn an_answer_without_a_token_is_not_quoted() {
        for body in [
            "",
            "<html>hidden</html>",
            r#"{"token":"hidden"}"#,
            r#"{"access_token":7,"x":"hidden"}"#,
            r#"{"access_token":""}"#,
            r#"{"access_token":"hidden\nhidden"}"#,
            r#"{"access_token":"hidden","token_type":"mac"}"#,
            r#"{"access_token":"hidden","token_type":7}"#,
        ] {
            let error = judged(200, body).err();
            assert!(
                matches!(&error, Some(TokenError::Unavailable { text, .. })
                    if text == "the token endpoint's answer holds no bearer token"),
                "{body}: {error:?}"
            );
        }
    }

    #[test]
    fn a_life_is_believed_within_bounds() {
        let table = [
            (json!(1), 1),
            (json!(3_599), 3_599),
            (json!("30"), 30),
            (json!(" 30 "), 30),
            (json!(29.5), 29),
            (json!(0), 1),
            (json!(-5), 1),
            (json!(86_400), 3_600),
            (json!(u64::MAX), 3_600),
            (json!(1e300), 3_600),
            (json!("inf"), 3_600),
            (json!("NaN"), 300),
            (json!("soon"), 300),
            (json!(null), 300),
            (json!({}), 300),
        ];
        for (expires_in, secs) in table {
            let body =
                json!({ "access_token": "t", "expires_in": expires_in, "token_type": "BEARER" });
            let grant = judged(200, &body.to_string())
                .ok()
                .map(|grant| grant.life.as_secs());
            assert_eq!(grant, Some(secs), "{expires_in}");
        }
        let untyped = judged(200, r#"{"access_token":"t"}"#).ok();
        assert_eq!(untyped.map(|grant| grant.life), Some(UNTOLD_LIFE));
    }

    #[test]
    fn the_words_are_kept_without_the_assertion() {
        let table = [
            (
                r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#,
                "invalid_grant: Invalid JWT Signature.",
            ),
            (r#"{"error":"invalid_grant"}"#, "invalid_grant"),
            ("bad eyJhbGci.eyJpc3Mi.c2lnbmF0dXJl", "bad ***"),
        ];
        for (body, expected) in table {
            let error = judged(400, body).err();
            assert!(
                matches!(&error, Some(TokenError::Refused { http_status: Some(400), text })
                    if text == expected),
                "{body}: {error:?}"
            );
        }
    }
}
