//! A service in a process of its own that logs all it can, and whoever calls it.

use std::time::Duration;

use paybell::provider::client::plain_http;
use paybell::provider::mock::RunningMock;
use serde_json::Value;

use crate::support::app::{ADMIN_TOKEN, Settings};
use crate::support::database::Database;
use crate::support::http::Answer;
use crate::support::process::Process;
use crate::support::wait::until;

pub const PHONE: &str = "010-8642-9753";
pub const TOKEN: &str = "fZ3-registration-token-of-somebody";
pub const API_KEY: &str = "api-key-of-the-shop";
pub const GATEWAY_KEY: &str = "key-of-our-gateway-account";
pub const PASSWORD: &str = "password-of-the-database";
pub const IDEMPOTENCY_KEY: &str = "idempotency-key-of-somebody";
pub const WRONG: &str = "credentials-of-an-intruder";

/// In no log, answer or figure; whoever is allowed to see a row sees its texts there.
pub const PERSONAL: [&str; 10] = [
    "86429753",
    "8642-9753",
    "8642 9753",
    "8642%2D9753",
    TOKEN,
    API_KEY,
    GATEWAY_KEY,
    PASSWORD,
    WRONG,
    ADMIN_TOKEN,
];

/// In no log.
pub const WORDS: [&str; 7] = [
    "words-of-the-description",
    "words-of-the-body",
    "words-of-the-title",
    "words-of-the-data",
    "홍길동",
    IDEMPOTENCY_KEY,
    "words-of-a-query",
];

/// A service with a secret in every place, as talkative as it can be made.
pub fn settings(database: &Database, mock: &RunningMock) -> Settings {
    let url = database
        .url()
        .replace("postgres@", &format!("postgres:{PASSWORD}@"));
    Settings::new(database, mock)
        .with_short_leases()
        .with("DATABASE_URL", url)
        .with("API_KEYS", format!("shop={API_KEY}"))
        .with("SMS_API_KEY", GATEWAY_KEY)
        .with("DATABASE_TIMEOUT_MS", 1000)
        .with(
            "RUST_LOG",
            "trace,paybell=trace,tokio_postgres=trace,hyper=trace,actix_http=trace",
        )
}

pub struct Caller {
    pub process: Process,
    http: reqwest::Client,
}

impl Caller {
    pub async fn start(settings: &Settings) -> Self {
        Self {
            process: Process::serve(settings).await,
            http: plain_http(Duration::from_secs(30)).unwrap(),
        }
    }

    pub fn request(&self, method: &str, path: &str, key: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.process.base);
        self.http
            .request(method.parse().unwrap(), url)
            .bearer_auth(key)
    }

    pub async fn pay(&self, body: &Value, idempotency_key: &str) -> Value {
        let request = self.request("POST", "/payments", API_KEY).json(body);
        let answer = Answer::to(request.header("idempotency-key", idempotency_key)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    pub async fn admin(&self, path: &str) -> Answer {
        Answer::to(self.request("GET", path, ADMIN_TOKEN)).await
    }

    /// Waits until `done` holds for the row.
    pub async fn row(&self, id: &str, done: impl Fn(&Value) -> bool) -> Value {
        until("the row gets there", Duration::from_secs(15), async || {
            let row = self.admin(&format!("/admin/outbox/{id}")).await.json();
            done(&row).then_some(row)
        })
        .await
    }

    pub async fn ended(self) -> Vec<String> {
        self.process.signal("TERM");
        let ended = self.process.ended(Duration::from_secs(15)).await;
        assert_eq!(ended.code, Some(0), "{:#?}", ended.log);
        ended.log
    }
}
