#![expect(clippy::unwrap_used, reason = "a test may panic")]

use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use secrecy::ExposeSecret;

use super::*;

const TEST_KEY: &str = include_str!("../../mock/test_key.pem");

/// A key file with some members changed; null removes.
fn file(changes: &[(&str, Value)]) -> String {
    let mut file = json!({
        "type": "service_account",
        "project_id": "shop",
        "private_key_id": "key-1",
        "private_key": TEST_KEY,
        "client_email": "sender@shop.iam.gserviceaccount.com",
        "client_id": "1",
        "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": "https://oauth2.googleapis.com/token",
        "universe_domain": "googleapis.com",
    });
    for (name, value) in changes {
        file[*name] = value.clone();
    }
    file.to_string()
}

fn parse(changes: &[(&str, Value)]) -> Result<ServiceAccount, KeyError> {
    ServiceAccount::parse(&file(changes))
}

#[test]
fn a_whole_key_is_read() {
    let account = parse(&[]).unwrap();
    assert_eq!(account.project_id(), Some("shop"));
    assert_eq!(account.token_uri().as_str(), GOOGLE_TOKEN_URI);
    let account = parse(&[("project_id", json!("")), ("token_uri", json!(null))]).unwrap();
    assert_eq!(account.project_id(), None);
    assert_eq!(account.token_uri().as_str(), GOOGLE_TOKEN_URI);
    ServiceAccount::parse(&format!("\u{feff}\n{}\n", file(&[]))).unwrap();
}

#[test]
fn line_breaks_may_be_written_out() {
    for line_break in ["\\n", "\\r\\n", "\r\n"] {
        let key = TEST_KEY.replace('\n', line_break);
        parse(&[("private_key", json!(key))]).unwrap();
    }
}

#[test]
fn every_fault_of_a_key_is_named_without_its_content() {
    let body = &TEST_KEY[TEST_KEY.find("-----\n").unwrap() + 6..];
    let secret = &body[..40];
    let cut = TEST_KEY.replace(secret, "");
    let mended = |label: &str| TEST_KEY.replace("PRIVATE KEY", label);
    let table = [
        (String::new(), "line 1, column 0"),
        ("{\"type\":".to_owned(), "line 1, column 8"),
        (TEST_KEY.to_owned(), "is not the JSON"),
        ("[]".to_owned(), "is not the JSON"),
        ("\"hidden\"".to_owned(), "is not the JSON"),
        (file(&[("private_key", json!(7))]), "is not the JSON"),
        (
            "{}".to_owned(),
            "lacks type and client_email and private_key",
        ),
        (
            r#"{"installed":{"client_id":"x"}}"#.to_owned(),
            "lacks type",
        ),
        (file(&[("type", json!("authorized_user"))]), "another kind"),
        (file(&[("type", json!(null))]), "lacks type"),
        (file(&[("client_email", json!(" "))]), "lacks client_email"),
        (file(&[("private_key", json!(""))]), "lacks private_key"),
        (file(&[("private_key", json!(secret))]), "not a PEM block"),
        (
            file(&[("private_key", json!(mended("CERTIFICATE")))]),
            "not a PEM block",
        ),
        (
            file(&[("private_key", json!(mended("EC PRIVATE KEY")))]),
            "not an RSA key",
        ),
        (
            file(&[("private_key", json!(mended("RSA PRIVATE KEY")))]),
            "not an RSA key",
        ),
        (
            file(&[("private_key", json!(cut))]),
            "private_key that is not",
        ),
        (
            file(&[("token_uri", json!("oauth2.googleapis.com"))]),
            "token_uri",
        ),
        (file(&[("token_uri", json!("ftp://h/hidden"))]), "token_uri"),
    ];
    for (text, expected) in table {
        let error = ServiceAccount::parse(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(expected), "{shown}");
        assert!(
            !shown.contains(secret) && !shown.contains("hidden"),
            "{shown}"
        );
    }
}

#[test]
fn an_assertion_is_signed_and_says_who_asks_for_what() {
    let account = parse(&[]).unwrap();
    let now = Utc::now();
    let assertion = account.assertion(now).unwrap();
    let (signed, signature) = assertion.expose_secret().rsplit_once('.').unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let key = UnparsedPublicKey::new(
        &RSA_PKCS1_2048_8192_SHA256,
        account.key.public_key().as_ref().to_vec(),
    );
    key.verify(signed.as_bytes(), &signature).unwrap();

    let parts = signed.split('.').map(|part| {
        let json = BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        serde_json::from_slice::<Value>(&json).unwrap()
    });
    let issued = now.timestamp() - 10;
    let expected = [
        json!({ "alg": "RS256", "typ": "JWT", "kid": "key-1" }),
        json!({
            "iss": "sender@shop.iam.gserviceaccount.com",
            "scope": "https://www.googleapis.com/auth/firebase.messaging",
            "aud": "https://oauth2.googleapis.com/token",
            "iat": issued,
            "exp": issued + 3_600,
        }),
    ];
    assert_eq!(parts.collect::<Vec<_>>(), expected);
}

#[test]
fn the_audience_is_the_token_uri_as_it_is_written() {
    for token_uri in ["https://h", "https://h/token", "https://h:8443/a%2Fb?x=1"] {
        let account = parse(&[("token_uri", json!(token_uri))]).unwrap();
        let assertion = account.assertion(Utc::now()).unwrap();
        let claims = assertion.expose_secret().split('.').nth(1).unwrap();
        let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["aud"], token_uri);
    }
}

#[test]
fn debug_output_holds_nothing_of_the_key() {
    assert_eq!(
        format!("{:?}", parse(&[]).unwrap()),
        "ServiceAccount { .. }"
    );
}
