//! A client of one running service, whatever process it runs in.

use std::time::Duration;

use paybell::provider::client::plain_http;
use serde_json::Value;

use super::app::ADMIN_TOKEN;
use super::wait::until;

/// A client; a clone shares its connections.
#[derive(Clone)]
pub struct Client {
    /// `http://…` of the service.
    pub base: String,
    http: reqwest::Client,
}

impl Client {
    /// A client of the service at `base`.
    pub fn new(base: &str) -> Self {
        Self {
            base: base.to_owned(),
            http: plain_http(Duration::from_secs(30)).unwrap(),
        }
    }

    /// POST /payments, perhaps with an idempotency key; status and body of the answer. A service
    /// that is not there or breaks off is an error.
    pub async fn post(&self, body: &Value, key: Option<&str>) -> reqwest::Result<(u16, Value)> {
        let mut request = self.http.post(format!("{}/payments", self.base)).json(body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await?))
    }

    /// Posts a payment that must be answered 201; returns the answer.
    pub async fn pay(&self, body: &Value) -> Value {
        let (status, answer) = self.post(body, None).await.unwrap();
        assert_eq!(status, 201, "{answer}");
        answer
    }

    /// GET with the admin token; the JSON of a 200.
    pub async fn admin(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.base);
        let answer = self.http.get(url).bearer_auth(ADMIN_TOKEN).send().await;
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200, "GET {path}");
        answer.json().await.unwrap()
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

    /// A figure of GET /metrics, summed over its labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let answer = self.http.get(format!("{}/metrics", self.base)).send().await;
        let text = answer.unwrap().text().await.unwrap();
        let values = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let found = series.split('{').next()? == name;
            found.then(|| value.parse::<f64>().unwrap())
        });
        values.sum()
    }
}

/// The outcomes in a row's history, oldest first.
pub fn outcomes(row: &Value) -> Vec<&str> {
    let history = row["history"].as_array().unwrap();
    let outcomes = history.iter().map(|entry| entry["outcome"].as_str());
    outcomes.map(Option::unwrap).collect()
}
