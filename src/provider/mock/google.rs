//! Google's token endpoint, at `/token`, and the service account that it knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::Utc;
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::behavior::{Behavior, Target};
use super::dialect;
use super::state::State;
use crate::provider::fcm::{GRANT_TYPE, SCOPE};

/// A public test key: see the words at its head.
const TEST_KEY: &str = include_str!("test_key.pem");

const CLIENT_EMAIL: &str = "paybell@demo-project.iam.gserviceaccount.com";
const PROJECT_ID: &str = "demo-project";

/// As Google's endpoint answers: an hour, less a second.
const EXPIRES_IN_SECS: u64 = 3_599;

/// The longest span from `iat` to `exp`.
const MAX_ASSERTION_SECS: i64 = 3_600;

/// The tokens that were given out.
pub(super) struct Google {
    /// Whether FCM refuses requests without a token; a token that comes is checked in any case.
    required: bool,
    public_key: Vec<u8>,
    /// With the moment at which each ends.
    tokens: Mutex<HashMap<String, Instant>>,
}

#[derive(Deserialize)]
struct Form {
    grant_type: String,
    assertion: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    scope: String,
    aud: String,
    iat: i64,
    exp: i64,
}

/// An OAuth error and its description.
type Refusal = (&'static str, &'static str);

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/token", web::post().to(token))
        .route("/mock/service-account", web::get().to(service_account));
}

/// The JSON of the service account's key, as the Firebase console would give it.
pub(super) fn key_file(host: &str) -> Value {
    let begin = TEST_KEY.find("-----BEGIN").unwrap_or_default();
    json!({
        "type": "service_account",
        "project_id": PROJECT_ID,
        "private_key_id": "mock-test-key",
        "private_key": &TEST_KEY[begin..],
        "client_email": CLIENT_EMAIL,
        "token_uri": token_url(host),
    })
}

fn token_url(host: &str) -> String {
    format!("http://{host}/token")
}

async fn service_account(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(key_file(request.connection_info().host()))
}

async fn token(
    state: web::Data<State>,
    google: web::Data<Google>,
    request: HttpRequest,
    body: web::Bytes,
) -> HttpResponse {
    let own_url = token_url(request.connection_info().host());
    if let Err((error, description)) = google.check_form(&request, &body, &own_url) {
        return HttpResponse::BadRequest()
            .json(json!({ "error": error, "error_description": description }));
    }
    let behavior = state.request(Target::Token, None).unwrap_or_default();
    dialect::plain(&request, &behavior, |behavior| google.answer(behavior)).await
}

impl Google {
    /// # Panics
    ///
    /// Never: the key is in the program.
    #[expect(clippy::expect_used, reason = "the key is a constant")]
    pub(super) fn new(required: bool) -> Self {
        let der = PrivatePkcs8KeyDer::from_pem_slice(TEST_KEY.as_bytes()).expect("a PEM");
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).expect("an RSA key");
        Self {
            required,
            public_key: key.public_key().as_ref().to_vec(),
            tokens: Mutex::default(),
        }
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on no token that was given out is taken.
    pub(super) fn revoke_tokens(&self) {
        self.tokens().clear();
    }

    /// The 401 for a request whose token is missing, unknown or over.
    pub(super) fn refuse(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let header = request.headers().get(AUTHORIZATION);
        let reason = match header.map(|value| value.to_str().unwrap_or_default()) {
            None if !self.required => return None,
            None => "CREDENTIALS_MISSING",
            Some(value) => {
                let token = value.strip_prefix("Bearer ").unwrap_or_default();
                match self.tokens().get(token) {
                    Some(ends) if Instant::now() < *ends => return None,
                    Some(_) => "ACCESS_TOKEN_EXPIRED",
                    None => "ACCESS_TOKEN_TYPE_UNSUPPORTED",
                }
            }
        };
        Some(HttpResponse::Unauthorized().json(unauthenticated(reason)))
    }

    fn check_form(&self, request: &HttpRequest, body: &[u8], own_url: &str) -> Result<(), Refusal> {
        let form = (request.content_type() == "application/x-www-form-urlencoded")
            .then(|| read_form(body))
            .flatten()
            .ok_or(("invalid_request", "Bad form: grant_type and assertion."))?;
        if form.grant_type != GRANT_TYPE {
            return Err(("unsupported_grant_type", "Invalid grant_type."));
        }
        self.check_assertion(&form.assertion, own_url)
    }

    fn check_assertion(&self, assertion: &str, own_url: &str) -> Result<(), Refusal> {
        let grant = |description| Err(("invalid_grant", description));
        let Some((signed, signature)) = assertion.rsplit_once('.') else {
            return grant("Bad JWT.");
        };
        let Some((header, claims)) = signed.split_once('.') else {
            return grant("Bad JWT.");
        };
        let algorithm = part::<Header>(header).map(|header| header.alg);
        if algorithm.as_deref() != Some("RS256") {
            return grant("Invalid JWT algorithm.");
        }
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        if key.verify(signed.as_bytes(), &signature).is_err() {
            return grant("Invalid JWT Signature.");
        }
        let Some(claims) = part::<Claims>(claims) else {
            return grant("Bad JWT claims.");
        };
        claims.check(own_url)
    }

    /// A token, its members replaced by those of the behaviour's body.
    fn answer(&self, behavior: &Behavior) -> Value {
        let status = behavior.status();
        if !status.is_success() {
            let usual = || json!({ "error": error_name(status) });
            return behavior.body.clone().unwrap_or_else(usual);
        }
        // As long as Google's are.
        let parts = std::iter::repeat_with(|| Uuid::new_v4().simple().to_string()).take(6);
        let token = format!("ya29.mock-{}", parts.collect::<String>());
        let mut answer = json!({
            "access_token": token,
            "expires_in": EXPIRES_IN_SECS,
            "token_type": "Bearer",
        });
        match &behavior.body {
            Some(Value::Object(members)) => {
                for (name, value) in members {
                    answer[name.as_str()] = value.clone();
                }
            }
            Some(other) => return other.clone(),
            None => {}
        }
        if let Some(token) = answer["access_token"].as_str() {
            let life = answer["expires_in"].as_u64().unwrap_or(EXPIRES_IN_SECS);
            let life = Duration::from_secs(life.min(EXPIRES_IN_SECS));
            self.tokens()
                .insert(token.to_owned(), Instant::now() + life);
        }
        answer
    }
}

impl Claims {
    fn check(&self, own_url: &str) -> Result<(), Refusal> {
        let now = Utc::now().timestamp();
        let in_time = self.iat <= now
            && self.exp > now
            && self.exp.saturating_sub(self.iat) <= MAX_ASSERTION_SECS;
        if self.iss != CLIENT_EMAIL {
            Err(("invalid_grant", "Invalid grant: account not found"))
        } else if self.aud != own_url {
            Err(("invalid_grant", "Invalid JWT audience."))
        } else if !in_time {
            let text = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a \
                        reasonable timeframe. Check your iat and exp values in the JWT claim.";
            Err(("invalid_grant", text))
        } else if !self.scope.split(' ').any(|scope| scope == SCOPE) {
            Err(("invalid_scope", "Invalid OAuth scope or ID token audience."))
        } else {
            Ok(())
        }
    }
}

fn read_form(body: &[u8]) -> Option<Form> {
    let mut fields: HashMap<_, _> = url::form_urlencoded::parse(body).into_owned().collect();
    Some(Form {
        grant_type: fields.remove("grant_type")?,
        assertion: fields.remove("assertion")?,
    })
}

/// A part of a JSON Web Token: base64url without padding, which is refused.
fn part<T: DeserializeOwned>(text: &str) -> Option<T> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&json).ok()
}

fn error_name(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "invalid_client",
        403 => "access_denied",
        429 | 500.. => "internal_failure",
        _ => "invalid_grant",
    }
}

fn unauthenticated(reason: &str) -> Value {
    json!({ "error": {
        "code": 401,
        "message": "Request had invalid authentication credentials. Expected OAuth 2 access \
                    token, login cookie or other valid authentication credential.",
        "status": "UNAUTHENTICATED",
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "googleapis.com",
        }],
    }})
}
