//! The main job, end to end.

use std::time::Duration;

use serde_json::json;

use crate::support::app::{TestApp, notification, payment};
use crate::support::on_both_databases;

on_both_databases! {
    /// A payment comes in, its SMS and its push arrive, and both rows say so.
    async fn a_posted_payment_arrives(database: Database) {
        let app = TestApp::start(database).await;
        let both = json!([
            { "channel": "sms", "to": "010-1234-5678" },
            { "channel": "fcm", "to": "a-registration-token" },
        ]);
        let answer = app.pay(&payment("order-1", &both)).await;
        let arrived = app.mock.wait_for(2, Duration::from_secs(5)).await.unwrap();
        assert_eq!(arrived.len(), 2);
        for n in 0..2 {
            let row = app.row_in(&notification(&answer, n), "SENT").await;
            assert_eq!(row["attempts"], 1);
            assert_eq!(row["history"], json!([]));
        }
        let (ended, mock) = app.stop().await;
        ended.unwrap();
        assert_eq!(mock.messages().len(), 2);
    }
}
