//! A provider that cannot be reached at all: waited out, at no cost to the row.

use std::time::Duration;

use paybell::provider::mock::{Mock, Target};

use crate::support::app::{Settings, TestApp, notification};
use crate::support::client::outcomes;
use crate::support::load::{nobodys_address, one_sms};
use crate::support::on_both_databases;
use crate::support::wait::until;

async fn has_waited(app: &TestApp, id: &str) {
    until("the row waits", Duration::from_secs(10), async || {
        let row = app.row(id).await;
        let error = row["last_error"]
            .as_str()
            .is_some_and(|error| error.contains("connect"));
        (error && row["deferrals"].as_i64() >= Some(2)).then_some(())
    })
    .await;
}

on_both_databases! {
    /// A gateway that refuses connections costs no attempt, and gets its message once it is up.
    async fn a_refused_connection_is_waited_out(database: Database) {
        let address = nobodys_address();
        let app = TestApp::start_with(database, |settings| {
            settings
                .with("SMS_BASE_URL", format!("http://{address}/sms"))
                .with("BACKOFF_MAX_MS", 500)
        })
        .await;
        let id = notification(&app.pay(&one_sms(0)).await, 0);
        has_waited(&app, &id).await;
        let gateway = Mock::start(address).unwrap();
        let row = app.row_in(&id, "SENT").await;
        assert_eq!(row["attempts"], 1);
        assert_eq!(outcomes(&row), ["deferred", "accepted"]);
        assert_eq!((gateway.requests(Target::Sms), gateway.messages().len()), (1, 1));
    }
}

on_both_databases! {
    /// A host name that does not resolve is waited out too; mended, the row is sent.
    async fn a_name_that_does_not_resolve_is_waited_out(database: Database) {
        let app = TestApp::start_with(database.clone(), |settings| {
            // RFC 6761: no such name, ever.
            settings.with("SMS_BASE_URL", "http://gateway.invalid/sms")
        })
        .await;
        let id = notification(&app.pay(&one_sms(0)).await, 0);
        has_waited(&app, &id).await;
        let row = app.row(&id).await;
        assert_eq!((&row["status"], &row["attempts"]), (&"PENDING".into(), &0.into()));
        let (ended, mock) = app.stop().await;
        ended.unwrap();
        let settings = Settings::new(&database, &mock);
        let app = TestApp::start_over(database, mock, settings).await;
        app.row_in(&id, "SENT").await;
        assert_eq!(app.mock.messages().len(), 1);
    }
}
