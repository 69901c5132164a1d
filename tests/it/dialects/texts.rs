//! What a dialect cannot carry.

use serde_json::{Value, json};

use crate::support::app::payment;
use crate::support::dialect::speaking;
use crate::support::on_both_databases;

on_both_databases! {
    /// What a Korean carrier cannot print is told to the client, not to the carrier.
    async fn an_emoji_is_refused_where_it_cannot_be_sent(database: Database) {
        let app = speaking(database, "solapi").await;
        let happy = json!([{ "channel": "sms", "to": "010-1234-5678", "body": "paid 😀" }]);
        let answer = app.post(&payment("order-1", &happy)).await;
        assert_eq!(answer.status(), 422);
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], "/notifications/0/body");
        let detail = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("U+1F600"), "{detail}");
        app.stop().await.0.unwrap();
    }
}
