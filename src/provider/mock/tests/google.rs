use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::Utc;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use super::*;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What a sender signs, with some claims changed.
fn claims(mock: &RunningMock, changes: &[(&str, Value)]) -> Value {
    let key: Value = serde_json::from_str(&mock.service_account()).unwrap();
    let now = Utc::now().timestamp();
    let mut claims = json!({
        "iss": key["client_email"],
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
        "aud": key["token_uri"],
        "iat": now,
        "exp": now + 3_600,
    });
    for (name, value) in changes {
        claims[*name] = value.clone();
    }
    claims
}

fn signed(mock: &RunningMock, header: &Value, claims: &Value) -> String {
    let key: Value = serde_json::from_str(&mock.service_account()).unwrap();
    let pem = key["private_key"].as_str().unwrap();
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    let part = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    let random = SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
        .unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

async fn ask(mock: &RunningMock, grant_type: &str, assertion: &str) -> Reply {
    let url = endpoint(&mock.base_url(), &["token"]);
    let form = [("grant_type", grant_type), ("assertion", assertion)];
    let client = client();
    let reply = client.call(|http| http.post(url).form(&form));
    reply.await.unwrap()
}

fn rs256() -> Value {
    json!({ "alg": "RS256", "typ": "JWT" })
}

#[tokio::test]
async fn a_token_is_given_for_a_good_assertion_and_taken_by_fcm() {
    let mock = testing::mock();
    let assertion = signed(&mock, &rs256(), &claims(&mock, &[]));
    let answer = ask(&mock, GRANT, &assertion).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json().unwrap();
    assert_eq!(answer["expires_in"], 3_599);
    assert_eq!(answer["token_type"], "Bearer");
    let token = answer["access_token"].as_str().unwrap();
    assert_eq!(pushed_with(&mock, Some(token)).await.status, 200);
    assert_eq!(mock.requests(Target::Token), 1);

    mock.revoke_tokens();
    let refused = pushed_with(&mock, Some(token)).await;
    assert_eq!(refused.status, 401);
    let refused = refused.json().unwrap();
    assert_eq!(refused["error"]["status"], "UNAUTHENTICATED");
    let kind = "type.googleapis.com/google.rpc.ErrorInfo";
    assert_eq!(refused["error"]["details"][0]["@type"], kind);
    // Without one it still takes what it was not told to refuse.
    assert_eq!(pushed_with(&mock, None).await.status, 200);
}

async fn pushed_with(mock: &RunningMock, token: Option<&str>) -> Reply {
    let path = ["v1", "projects", "shop", "messages:send"];
    let url = endpoint(&mock.base_url(), &path);
    let client = client();
    let reply = client.call(|http| {
        let request = http.post(url);
        let request = request.json(&json!({ "message": { "token": TOKEN } }));
        match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    });
    reply.await.unwrap()
}

#[tokio::test]
async fn what_google_would_refuse_is_refused() {
    let mock = testing::mock();
    let now = Utc::now().timestamp();
    let with = |changes: &[(&str, Value)]| signed(&mock, &rs256(), &claims(&mock, changes));
    let good = with(&[]);
    let padded = format!("{good}==");
    let unsigned = signed(&mock, &json!({ "alg": "none" }), &claims(&mock, &[]));
    let (head, _) = good.rsplit_once('.').unwrap();
    let tampered = format!(
        "{head}.{}",
        with(&[("iat", json!(now - 1))]).rsplit_once('.').unwrap().1
    );
    let table = [
        (String::new(), "Bad JWT."),
        ("a.b".to_owned(), "Bad JWT."),
        ("a.b.c".to_owned(), "algorithm"),
        (unsigned, "algorithm"),
        (padded, "Signature"),
        (tampered, "Signature"),
        (signed(&mock, &rs256(), &json!({})), "claims"),
        (with(&[("iss", json!("nobody"))]), "account not found"),
        (
            with(&[("aud", json!("https://oauth2.googleapis.com/token"))]),
            "audience",
        ),
        (with(&[("iat", json!(now + 60))]), "reasonable timeframe"),
        (with(&[("exp", json!(now + 3_700))]), "reasonable timeframe"),
        (
            with(&[("iat", json!(now - 9_000)), ("exp", json!(now - 5_400))]),
            "reasonable timeframe",
        ),
        (
            with(&[("scope", json!("https://www.googleapis.com/auth/calendar"))]),
            "scope",
        ),
    ];
    for (assertion, expected) in table {
        let answer = ask(&mock, GRANT, &assertion).await;
        assert_eq!(answer.status, 400, "{expected}");
        let answer = answer.json().unwrap();
        let said = answer["error_description"].as_str().unwrap();
        assert!(said.contains(expected), "{said}");
    }
    let answer = ask(&mock, "password", &good).await.json().unwrap();
    assert_eq!(answer["error"], "unsupported_grant_type");
    let empty = control(&mock, "POST", "/token", "").await;
    assert_eq!(empty.json().unwrap()["error"], "invalid_request");
    // None of them counts as a request that was well-formed.
    assert_eq!(mock.requests(Target::Token), 0);
}

#[tokio::test]
async fn a_behaviour_changes_single_members_of_the_answer() {
    let mock = testing::mock();
    let assertion = signed(&mock, &rs256(), &claims(&mock, &[]));
    let order = json!({ "body": { "expires_in": 0, "extra": true } }).to_string();
    let put = control(&mock, "PUT", "/mock/behavior/token", &order).await;
    assert_eq!(put.status, 204);
    let answer = ask(&mock, GRANT, &assertion).await.json().unwrap();
    assert_eq!(
        (&answer["expires_in"], &answer["extra"]),
        (&json!(0), &json!(true))
    );
    let token = answer["access_token"].as_str().unwrap();
    let refused = pushed_with(&mock, Some(token)).await.json().unwrap();
    assert_eq!(
        refused["error"]["details"][0]["reason"],
        "ACCESS_TOKEN_EXPIRED"
    );

    mock.set_behavior(Target::Token, status(503)).unwrap();
    let answer = ask(&mock, GRANT, &assertion).await;
    assert_eq!(
        (answer.status, answer.json().unwrap()),
        (503, json!({ "error": "internal_failure" }))
    );
}

#[tokio::test]
async fn the_service_account_points_at_this_mock() {
    let mock = testing::mock();
    let key = control(&mock, "GET", "/mock/service-account", "").await;
    assert_eq!(key.json().unwrap().to_string(), mock.service_account());
    let key = key.json().unwrap();
    assert_eq!(key["token_uri"], format!("{}token", mock.base_url()));
    assert!(
        key["private_key"]
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN PRIVATE KEY-----\n")
    );
}
