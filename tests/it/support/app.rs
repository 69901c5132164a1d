//! The real app in this process, on port 0, with mock providers of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use paybell::app::{AppError, Application};
use paybell::config::{Config, Env};
use paybell::provider::client::plain_http;
use paybell::provider::mock::{Mock, RunningMock};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::database::Database;
use super::http::Answer;
use super::wait::until;

/// Opens the admin routes of every test's app.
pub const ADMIN_TOKEN: &str = "admin-token-of-the-tests";

/// The variables of a test's service; later settings win.
#[derive(Clone)]
pub struct Settings(pub BTreeMap<String, String>);

impl Settings {
    /// A service over `database` and `mock`, with short waits.
    pub fn new(database: &Database, mock: &RunningMock) -> Self {
        let settings = [
            ("DATABASE_URL", database.url().to_owned()),
            ("BIND_ADDR", "127.0.0.1:0".to_owned()),
            ("ADMIN_TOKEN", ADMIN_TOKEN.to_owned()),
            ("SMS_BASE_URL", mock.sms_base_url().to_string()),
            ("FCM_BASE_URL", mock.base_url().to_string()),
            ("FCM_PROJECT_ID", "test-project".to_owned()),
            ("OUTBOX_POLL_INTERVAL_MS", "100".to_owned()),
            ("BACKOFF_BASE_MS", "100".to_owned()),
        ];
        Self(
            settings
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    /// The same with one variable set.
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.insert(name.to_owned(), value.to_string());
        self
    }

    /// Leases of 5 s over provider timeouts of 1 s: what heals by itself heals within seconds.
    pub fn with_short_leases(self) -> Self {
        self.with("OUTBOX_LEASE_SECS", 5)
            .with("PROVIDER_TIMEOUT_MS", 1000)
    }
}

/// A running app.
pub struct TestApp {
    pub base: String,
    pub mock: RunningMock,
    pub http: reqwest::Client,
    pub database: Database,
    stop: CancellationToken,
    task: JoinHandle<Result<(), AppError>>,
}

impl TestApp {
    /// Starts an app with the usual settings.
    pub async fn start(database: Database) -> Self {
        Self::start_with(database, |settings| settings).await
    }

    /// Starts an app with settings of its own.
    pub async fn start_with(database: Database, adjust: impl FnOnce(Settings) -> Settings) -> Self {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let settings = adjust(Settings::new(&database, &mock));
        Self::start_over(database, mock, settings).await
    }

    /// Starts an app over a mock that is there already.
    pub async fn start_over(database: Database, mock: RunningMock, settings: Settings) -> Self {
        let env: Env = settings.0.into_iter().collect();
        let config = Config::from_env(&env).expect("the test's settings are wrong");
        let app = Application::build(config)
            .await
            .expect("the app does not start");
        let base = format!("http://{}", app.addr());
        let stop = CancellationToken::new();
        let task = tokio::spawn(app.run_until(stop.clone().cancelled_owned()));
        Self {
            base,
            mock,
            http: plain_http(Duration::from_secs(30)).unwrap(),
            database,
            stop,
            task,
        }
    }

    /// Stops it in order; returns the mock with what arrived.
    pub async fn stop(self) -> (Result<(), AppError>, RunningMock) {
        self.stop.cancel();
        let ended = self.task.await.expect("the app panicked");
        (ended, self.mock)
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// GET without credentials.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::to(self.http.get(self.url(path))).await
    }

    /// GET with the admin token.
    pub async fn admin_get(&self, path: &str) -> Answer {
        Answer::to(self.http.get(self.url(path)).bearer_auth(ADMIN_TOKEN)).await
    }

    /// POST /payments with a JSON body.
    pub async fn post(&self, body: &Value) -> reqwest::Response {
        let request = self.http.post(self.url("/payments")).json(body);
        request.send().await.unwrap()
    }

    /// Posts a payment that must be answered 201; returns the answer.
    pub async fn pay(&self, body: &Value) -> Value {
        let answer = self.post(body).await;
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert_eq!(status, 201, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// GET with the admin token; the JSON of a 200.
    pub async fn admin(&self, path: &str) -> Value {
        let request = self.http.get(self.url(path)).bearer_auth(ADMIN_TOKEN);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "GET {path}");
        answer.json().await.unwrap()
    }

    /// POST with the admin token.
    pub async fn admin_post(&self, path: &str, body: &Value) -> reqwest::Response {
        let request = self.http.post(self.url(path)).bearer_auth(ADMIN_TOKEN);
        request.json(body).send().await.unwrap()
    }

    /// The row with its history.
    pub async fn row(&self, id: &str) -> Value {
        self.admin(&format!("/admin/outbox/{id}")).await
    }

    /// Waits until the row has this status; returns it.
    pub async fn row_in(&self, id: &str, status: &str) -> Value {
        let what = format!("row {id} is {status}");
        until(&what, Duration::from_secs(30), async || {
            let row = self.row(id).await;
            (row["status"] == status).then_some(row)
        })
        .await
    }
}

/// A payment of 15,000 won with the given notifications.
pub fn payment(order_id: &str, notifications: &Value) -> Value {
    json!({
        "order_id": order_id, "amount": 15000, "currency": "KRW",
        "notifications": notifications,
    })
}

/// A payment with one SMS.
pub fn sms(order_id: &str, to: &str) -> Value {
    payment(order_id, &json!([{ "channel": "sms", "to": to }]))
}

/// The id of the n-th notification of an answer.
pub fn notification(answer: &Value, n: usize) -> String {
    answer["notifications"][n]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// As many payments as it takes to notify all of these recipients over one channel.
pub fn payments_to(channel: &str, recipients: &[String]) -> Vec<Value> {
    /// Notifications that one payment may have.
    const MOST: usize = 20;
    let chunks = recipients.chunks(MOST).enumerate();
    chunks
        .map(|(n, chunk)| {
            let each = chunk.iter();
            let each: Vec<_> = each
                .map(|to| json!({ "channel": channel, "to": to }))
                .collect();
            payment(&format!("order-{n}"), &Value::from(each))
        })
        .collect()
}

/// The ids of all notifications of an answer.
pub fn notifications(answer: &Value) -> Vec<String> {
    let all = answer["notifications"].as_array().unwrap();
    (0..all.len()).map(|n| notification(answer, n)).collect()
}
