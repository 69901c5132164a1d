//! What a client sees of its payments.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Target};
use serde_json::{Value, json};

use crate::support::app::{TestApp, notification, payment, sms};
use crate::support::http::Answer;
use crate::support::on_both_databases;
use crate::support::wait::until;

/// 2026-11-30T12:00:00.123456Z
fn assert_moment(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    let digits_as_zeros: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(digits_as_zeros, "0000-00-00T00:00:00.000000Z", "{text}");
}

fn assert_uuid_v7(value: &Value) {
    let id: uuid::Uuid = value.as_str().unwrap().parse().unwrap();
    assert_eq!(id.get_version_num(), 7, "{id}");
    assert_eq!(value, &json!(id.hyphenated().to_string()));
}

on_both_databases! {
    async fn the_answer_has_exactly_the_promised_shape(database: Database) {
        let app = TestApp::start(database).await;
        let body = json!({
            "order_id": "주문-1 / ☃", "amount": 9_007_199_254_740_991_i64, "currency": "KRW",
            "description": "Sat 19:00\n\"futsal\"", "locale": "ko-KR",
            "notifications": [
                { "channel": "sms", "to": "010-1234-5678" },
                { "channel": "fcm", "to": "fZ3:APA91b_token-abcd", "title": "Paid",
                  "body": "See you", "data": { "screen": "match/07" } },
            ],
        });
        let answer = Answer::to(app.http.post(app.url("/payments")).json(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("idempotent-replayed"), "");
        let created = answer.json();
        assert_uuid_v7(&created["id"]);
        assert_moment(&created["created_at"]);
        for n in 0..2 {
            assert_uuid_v7(&created["notifications"][n]["id"]);
        }
        let id = created["id"].as_str().unwrap();
        assert_eq!(answer.header("location"), format!("/payments/{id}"));
        assert_eq!(created, json!({
            "id": id, "status": "APPROVED",
            "order_id": body["order_id"], "amount": body["amount"], "currency": "KRW",
            "description": body["description"], "created_at": created["created_at"],
            "notifications": [
                { "id": notification(&created, 0), "channel": "sms", "to": "+82*****5678",
                  "status": "PENDING" },
                { "id": notification(&created, 1), "channel": "fcm", "to": "*****abcd",
                  "status": "PENDING" },
            ],
        }));
    }
}

on_both_databases! {
    async fn a_payment_shows_how_each_notification_stands(database: Database) {
        let app = TestApp::start(database).await;
        let refuse = Behavior { status: Some(400), ..Behavior::default() };
        app.mock.set_behavior(Target::Fcm, refuse).unwrap();
        let both = json!([
            { "channel": "sms", "to": "010-1234-5678" },
            { "channel": "fcm", "to": "a-registration-token" },
        ]);
        let created = app.pay(&payment("order-1", &both)).await;
        app.row_in(&notification(&created, 0), "SENT").await;
        app.row_in(&notification(&created, 1), "FAILED").await;

        let path = format!("/payments/{}", created["id"].as_str().unwrap());
        let shown = app.get(&path).await;
        assert_eq!(shown.status, 200);
        let shown = shown.json();
        assert_moment(&shown["notifications"][0]["sent_at"]);
        let mut expected = created.clone();
        expected["notifications"][0]["status"] = json!("SENT");
        expected["notifications"][0]["reason"] = json!(null);
        expected["notifications"][0]["sent_at"] = shown["notifications"][0]["sent_at"].clone();
        expected["notifications"][1]["status"] = json!("FAILED");
        expected["notifications"][1]["reason"] = json!("rejected");
        expected["notifications"][1]["sent_at"] = json!(null);
        assert_eq!(shown, expected);
    }
}

on_both_databases! {
    async fn retention_leaves_the_payment_and_says_what_it_took(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let two = json!([
            { "channel": "sms", "to": "010-1234-5678" },
            { "channel": "sms", "to": "010-1234-9999" },
        ]);
        let refuse = Behavior {
            to: Some("+821012349999".to_owned()), status: Some(400), ..Behavior::default()
        };
        app.mock.set_behavior(Target::Sms, refuse).unwrap();
        let created = app.pay(&payment("order-1", &two)).await;
        app.row_in(&notification(&created, 0), "SENT").await;
        app.row_in(&notification(&created, 1), "FAILED").await;
        app.stop().await.0.unwrap();
        database.make_older("outbox", "updated_at", 169).await;

        // The sweep runs at start.
        let app = TestApp::start(database).await;
        let path = format!("/payments/{}", created["id"].as_str().unwrap());
        let shown = until("the SENT row is removed", Duration::from_secs(10), async || {
            let shown = app.get(&path).await.json();
            (shown["notifications_removed"] == 1).then_some(shown)
        })
        .await;
        assert_eq!(shown["notifications"].as_array().unwrap().len(), 1);
        assert_eq!(shown["notifications"][0]["status"], "FAILED");
        let stats = app.admin("/admin/outbox/stats").await;
        assert_eq!((&stats["recorded"], &stats["purged"]), (&json!(2), &json!(1)));
    }
}

on_both_databases! {
    async fn an_order_lists_its_payments_newest_first_in_stable_pages(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let mut posted = Vec::new();
        for n in 0..25 {
            let created = app.pay(&sms("order-1", &format!("010-1234-{n:04}"))).await;
            posted.push(created["id"].clone());
            if n % 10 == 0 {
                app.pay(&sms("order-2", "010-1234-5678")).await;
            }
        }
        // Pages must not hang on moments being different.
        database.execute("UPDATE payments SET created_at = (SELECT min(created_at) FROM payments)").await;
        let mut listed = Vec::new();
        let mut path = "/payments?order_id=order-1&limit=10".to_owned();
        let mut sizes = Vec::new();
        loop {
            let page = app.get(&path).await;
            assert_eq!(page.status, 200, "{}", page.text());
            let page = page.json();
            let items = page["items"].as_array().unwrap();
            sizes.push(items.len());
            listed.extend(items.iter().map(|item| item["id"].clone()));
            assert!(items.iter().all(|item| item["notifications"][0]["to"].as_str().unwrap().starts_with("+82*****")));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/payments?order_id=order-1&limit=10&cursor={cursor}");
            // One that comes in between moves no page.
            app.pay(&sms("order-1", "010-9999-0000")).await;
        }
        assert_eq!(sizes, [10, 10, 5]);
        posted.reverse();
        assert_eq!(listed, posted);
        let none = app.get("/payments?order_id=order-3").await.json();
        assert_eq!(none, json!({ "items": [], "next_cursor": null }));
        let all = app.get("/payments?order_id=order-1").await.json();
        assert_eq!(all["items"].as_array().unwrap().len(), 27);
        assert_eq!(all["next_cursor"], json!(null));
    }
}

on_both_databases! {
    async fn what_is_not_there_is_not_found_however_it_is_asked_for(database: Database) {
        let app = TestApp::start(database).await;
        let created = app.pay(&sms("order-1", "010-1234-5678")).await;
        let id = created["id"].as_str().unwrap();
        assert_eq!(app.get(&format!("/payments/{id}")).await.status, 200);
        assert_eq!(app.get(&format!("/payments/{}", id.to_uppercase())).await.status, 200);
        let encoded = id.replace('-', "%2D");
        assert_eq!(app.get(&format!("/payments/{encoded}")).await.status, 200);
        let simple = id.replace('-', "");
        let braced = format!("%7B{id}%7D");
        for other in [
            "00000000-0000-0000-0000-000000000000", "x", "%00", "%FF%FE", "%2e%2e%2fadmin", "1;--",
            "%EA%B0%80", simple.as_str(), braced.as_str(), &format!("{id}%20"), &"9".repeat(4000),
        ] {
            let answer = app.get(&format!("/payments/{other}")).await;
            answer.problem(404, "not-found");
        }
        for path in ["/", "/payments/", "//payments", "/payments/x/y", "/Payments", "/payments%3Forder_id=1"] {
            app.get(path).await.problem(404, "not-found");
        }
        let both = format!("/payments/{id}/");
        app.get(&both).await.problem(404, "not-found");
    }
}

on_both_databases! {
    async fn a_channel_that_is_not_configured_is_a_fault_of_the_request(database: Database) {
        let app = TestApp::start_with(database, |settings| {
            settings.with("FCM_BASE_URL", "").with("FCM_PROJECT_ID", "")
        })
        .await;
        let push = payment("order-1", &json!([{ "channel": "fcm", "to": "a-registration-token" }]));
        let answer = Answer::to(app.http.post(app.url("/payments")).json(&push)).await;
        answer.problem(422, "invalid");
        assert_eq!(answer.pointers(), ["/notifications/0/channel"]);
        app.pay(&sms("order-1", "010-1234-5678")).await;
    }
}
