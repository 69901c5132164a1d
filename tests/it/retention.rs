//! What is removed, what stays, and that the books balance afterwards.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Target};
use serde_json::Value;

use crate::support::app::{Settings, TestApp, notification};
use crate::support::client::Client;
use crate::support::database::Database;
use crate::support::load::{one_sms, phone};
use crate::support::on_both_databases;
use crate::support::wait::until;

const RETENTION_HOURS: i32 = 2;

/// Lets the n-th row's last change be so long ago.
async fn make_older(database: &Database, n: usize, minutes: i32) {
    let shift = if database.is_sqlite() {
        format!("{minutes} * 60000000")
    } else {
        format!("{minutes} * interval '1 minute'")
    };
    let sql = format!(
        "UPDATE outbox SET created_at = created_at - {shift}, updated_at = updated_at - {shift},
                           sent_at = sent_at - {shift}
         WHERE recipient = '{}'",
        phone(n)
    );
    database.execute(&sql).await;
}

fn balances(stats: &Value) -> bool {
    let kept: i64 = stats["by_status"]
        .as_object()
        .unwrap()
        .values()
        .map(|rows| rows.as_i64().unwrap())
        .sum();
    stats["recorded"].as_i64().unwrap() == kept + stats["purged"].as_i64().unwrap()
}

on_both_databases! {
    /// SENT and CANCELED rows go after RETENTION_HOURS, which are hours; FAILED and PENDING ones and
    /// payments stay; a key still finds its payment.
    async fn old_rows_go_and_the_books_balance(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let client = Client::new(&app.base);
        let (old, young, failed, canceled, pending) = (0, 1, 2, 3, 4);
        for (n, status) in [(failed, 400), (canceled, 503), (pending, 503)] {
            let behavior = Behavior {
                to: Some(phone(n)),
                status: Some(status),
                headers: [("Retry-After".to_owned(), "600".to_owned())].into(),
                ..Behavior::default()
            };
            app.mock.set_behavior(Target::Sms, behavior).unwrap();
        }
        let mut answers = Vec::new();
        for n in 0..5 {
            let key = format!("key-{n}");
            let (status, answer) = client.post(&one_sms(n), Some(&key)).await.unwrap();
            assert_eq!(status, 201);
            answers.push(answer);
        }
        let id = |n: usize| notification(&answers[n], 0);
        for (n, status) in [(old, "SENT"), (young, "SENT"), (failed, "FAILED")] {
            app.row_in(&id(n), status).await;
        }
        until("both rows wait", Duration::from_secs(5), async || {
            let waiting = "SELECT count(*) FROM outbox WHERE deferrals = 1";
            (database.number(waiting).await == 2).then_some(())
        })
        .await;
        let path = format!("/admin/outbox/{}/cancel", id(canceled));
        assert_eq!(app.admin_post(&path, &serde_json::json!({})).await.status(), 200);
        let (ended, mock) = app.stop().await;
        ended.unwrap();

        let beyond = RETENTION_HOURS * 60 + 10;
        for n in [old, failed, canceled, pending] {
            make_older(&database, n, beyond).await;
        }
        make_older(&database, young, RETENTION_HOURS * 60 - 10).await;
        let settings = Settings::new(&database, &mock).with("RETENTION_HOURS", RETENTION_HOURS);
        let app = TestApp::start_over(database.clone(), mock, settings).await;
        let client = Client::new(&app.base);
        let stats = until("two rows are removed", Duration::from_secs(5), async || {
            let stats = app.admin("/admin/outbox/stats").await;
            (stats["purged"] == 2).then_some(stats)
        })
        .await;
        assert!(balances(&stats), "{stats}");
        let by_status = &stats["by_status"];
        assert_eq!((&by_status["SENT"], &by_status["CANCELED"]), (&1.into(), &0.into()));
        assert_eq!((&by_status["FAILED"], &by_status["PENDING"]), (&1.into(), &1.into()));
        assert_eq!(app.row(&id(young)).await["status"], "SENT");

        let again = client.post(&one_sms(old), Some("key-0")).await.unwrap();
        assert_eq!(again, (201, answers[old].clone()), "the key does not find its payment");
        let path = format!("/payments/{}", answers[old]["id"].as_str().unwrap());
        let payment: Value = app.http.get(app.url(&path)).send().await.unwrap().json().await.unwrap();
        assert_eq!(payment["notifications_removed"], 1);
        assert_eq!(app.mock.messages().len(), 2, "something was sent again");
    }
}
