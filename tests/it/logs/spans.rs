//! What a line of the log says.

use paybell::provider::mock::{Behavior, Mock, Target};
use serde_json::Value;

use super::caller::{Caller, IDEMPOTENCY_KEY, PHONE, settings};
use crate::support::app::{notification, sms};
use crate::support::on_both_databases;

on_both_databases! {
    async fn spans_say_which_payment_which_row_and_which_attempt(database: Database) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let caller = Caller::start(&settings(&database, &mock)).await;
        let busy = Behavior { status: Some(503), times: Some(1), ..Behavior::default() };
        mock.set_behavior(Target::Sms, busy).unwrap();
        let created = caller.pay(&sms("order-1", PHONE), IDEMPOTENCY_KEY).await;
        let id = notification(&created, 0);
        caller.row(&id, |row| row["status"] == "SENT").await;
        let lines: Vec<Value> = caller
            .ended()
            .await
            .iter()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect();
        let span = |message: &str, name: &str| {
            lines
                .iter()
                .filter(|line| line["message"] == message)
                .flat_map(|line| line["spans"].as_array().unwrap())
                .find(|span| span["name"] == name)
                .unwrap_or_else(|| panic!("{message} in {name} is not in {lines:#?}"))
        };
        for message in ["deferred", "accepted"] {
            let delivery = span(message, "delivery");
            assert_eq!(delivery["payment.id"], created["id"]);
            assert_eq!(delivery["outbox.id"], id.as_str());
            assert_eq!(delivery["attempt"], 1, "a deferral costs no attempt");
        }
        let requests: Vec<_> = lines
            .iter()
            .filter_map(|line| line["spans"].as_array()?.iter().find(|span| span["name"] == "request"))
            .filter(|span| span["payment.id"] == created["id"])
            .collect();
        assert!(requests.iter().any(|span| span["http.route"] == "/payments" && span["http.status"] == 201), "{requests:#?}");
        for line in &lines {
            for field in ["timestamp", "level", "target", "message"] {
                assert!(line[field].is_string(), "{line}");
            }
        }
    }
}

on_both_databases! {
    async fn missing_admin_routes_are_said_once(database: Database) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let caller = Caller::start(&settings(&database, &mock).with("ADMIN_TOKEN", "")).await;
        for _ in 0..3 {
            caller.admin("/admin/outbox").await.problem(404, "not-found");
        }
        let log = caller.ended().await;
        let said = log.iter().filter(|line| line.contains("ADMIN_TOKEN is not set")).count();
        assert_eq!(said, 1, "{log:#?}");
    }
}
