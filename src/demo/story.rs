//! The sample payments, posted as a client would.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::screen::Screen;
use super::{DemoError, Stage};
use crate::provider::mock::{Behavior, Target};

/// Its gateway fails twice before it takes the message.
const UNLUCKY: &str = "+821055550002";

#[derive(Deserialize)]
struct Created {
    notifications: Vec<Notification>,
}

#[derive(Deserialize)]
struct Notification {
    id: Uuid,
    channel: String,
    to: String,
}

/// An HTTP client for the demo's own calls, all of them to loopback.
///
/// # Errors
/// When the client cannot be built.
pub fn client() -> Result<reqwest::Client, DemoError> {
    Ok(crate::provider::client::plain_http(Duration::from_secs(
        10,
    ))?)
}

/// Posts the samples one after the other; returns all their notifications.
///
/// # Errors
/// When one is not answered 201.
pub async fn tell(stage: &Stage, screen: &Screen) -> Result<Vec<Uuid>, DemoError> {
    let unlucky = Behavior {
        to: Some(UNLUCKY.to_owned()),
        times: Some(2),
        status: Some(stage.sms.refusal()),
        ..Behavior::default()
    };
    stage
        .mock
        .set_behavior(Target::Sms, unlucky)
        .map_err(|error| DemoError::Answer(error.to_string()))?;
    let mut notifications = Vec::new();
    for sample in samples() {
        notifications.extend(post(stage, screen, &sample).await?);
    }
    Ok(notifications)
}

async fn post(stage: &Stage, screen: &Screen, sample: &Value) -> Result<Vec<Uuid>, DemoError> {
    let _turn = screen.turn().await;
    let began = Instant::now();
    let answer = stage
        .http
        .post(stage.server.join("/payments").map_err(url)?)
        .header("Idempotency-Key", Uuid::new_v4().to_string())
        .json(sample)
        .send()
        .await?;
    let took = began.elapsed();
    let status = answer.status();
    if status != reqwest::StatusCode::CREATED {
        let text = answer.text().await?;
        return Err(DemoError::Answer(format!(
            "POST /payments: {status}: {text}"
        )));
    }
    let created: Created = answer.json().await?;
    let whom: Vec<String> = created
        .notifications
        .iter()
        .map(|n| format!("{} to {}", n.channel, n.to))
        .collect();
    screen.event(&format!(
        "POST /payments {order} {amount} {currency} -> 201 in {took:.1} ms ({whom})",
        order = sample["order_id"].as_str().unwrap_or_default(),
        amount = sample["amount"],
        currency = sample["currency"].as_str().unwrap_or_default(),
        took = took.as_secs_f64() * 1000.0,
        whom = whom.join(", "),
    ))?;
    Ok(created.notifications.iter().map(|n| n.id).collect())
}

fn url(error: url::ParseError) -> DemoError {
    DemoError::Answer(error.to_string())
}

fn samples() -> [Value; 4] {
    [
        json!({
            "order_id": "match-2026-07", "amount": 15000, "currency": "KRW",
            "description": "Sat 19:00 futsal", "locale": "ko",
            "notifications": [
                { "channel": "sms", "to": "010-1234-5678" },
                { "channel": "fcm", "to": "demo-registration-token-of-the-payer" },
            ],
        }),
        json!({
            "order_id": "unlucky-1", "amount": 33000, "currency": "KRW", "locale": "ko",
            "notifications": [{ "channel": "sms", "to": UNLUCKY }],
        }),
        json!({
            "order_id": "coffee-88", "amount": 1250, "currency": "USD", "locale": "en",
            "notifications": [{ "channel": "sms", "to": "+82 10 9876 5432" }],
        }),
        json!({
            "order_id": "ticket-3", "amount": 4500, "currency": "KWD", "locale": "en",
            "notifications": [{
                "channel": "fcm", "to": "another-registration-token",
                "title": "Paid", "body": "See you on Saturday", "data": { "screen": "match/07" },
            }],
        }),
    ]
}
