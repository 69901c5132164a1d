//! Clients with keys: who gets in, and who sees what.

use serde_json::json;

use crate::support::app::{TestApp, sms};
use crate::support::http::Answer;
use crate::support::on_both_databases;

const KEYS: &str = "shop=key-of-the-shop,club=key-of-the-club,shop=next-key-of-the-shop";

async fn get(app: &TestApp, key: &str, path: &str) -> Answer {
    Answer::to(app.http.get(app.url(path)).bearer_auth(key)).await
}

async fn pay(app: &TestApp, key: &str) -> String {
    let request = app.http.post(app.url("/payments")).bearer_auth(key);
    let answer = Answer::to(request.json(&sms("order-1", "010-1234-5678"))).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

on_both_databases! {
    async fn every_payments_route_wants_a_key(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("API_KEYS", KEYS)).await;
        let id = pay(&app, "key-of-the-shop").await;
        for (method, path) in [
            ("POST", "/payments".to_owned()),
            ("GET", "/payments?order_id=order-1".to_owned()),
            ("GET", "/payments".to_owned()),
            ("GET", format!("/payments/{id}")),
            ("GET", "/payments/x".to_owned()),
        ] {
            for value in [
                None, Some(""), Some("Bearer"), Some("Bearer "), Some("Bearer key-of-the-sho"),
                Some("Bearer key-of-the-shopp"), Some("Bearer KEY-OF-THE-SHOP"), Some("Bearer shop=key-of-the-shop"),
                Some("Bearer shop"), Some("key-of-the-shop"), Some("Basic a2V5"),
                Some("Bearer key-of-the-shop,key-of-the-club"),
            ] {
                let mut request = app.http.request(method.parse().unwrap(), app.url(&path));
                if let Some(value) = value {
                    request = request.header("authorization", value);
                }
                // Neither a bad body nor a bad id is told to somebody unknown.
                let answer = Answer::to(request.body("{}")).await;
                answer.problem(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), "Bearer");
            }
            let request = app.http.request(method.parse().unwrap(), app.url(&path));
            let twice = request.bearer_auth("key-of-the-shop").header("authorization", "Bearer key-of-the-club");
            Answer::to(twice).await.problem(401, "unauthorized");
        }
        for open in ["/health/live", "/health/ready", "/metrics"] {
            assert_eq!(app.get(open).await.status, 200);
        }
    }
}

on_both_databases! {
    async fn a_client_sees_its_own_payments_only(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("API_KEYS", KEYS)).await;
        let of_shop = pay(&app, "key-of-the-shop").await;
        let of_club = pay(&app, "key-of-the-club").await;
        for (key, own, others) in [
            ("key-of-the-shop", &of_shop, &of_club),
            ("next-key-of-the-shop", &of_shop, &of_club),
            ("key-of-the-club", &of_club, &of_shop),
        ] {
            assert_eq!(get(&app, key, &format!("/payments/{own}")).await.status, 200);
            let hidden = get(&app, key, &format!("/payments/{others}")).await;
            let missing = get(&app, key, "/payments/00000000-0000-0000-0000-000000000000").await;
            hidden.problem(404, "not-found");
            assert_eq!(hidden.text(), missing.text());
            let list = get(&app, key, "/payments?order_id=order-1").await.json();
            let ids: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
            assert_eq!(ids, [&json!(own)]);
        }
        // A cursor of somebody else opens nothing.
        let cursor = format!("after-{}", of_club.replace('-', ""));
        let path = format!("/payments?order_id=order-1&cursor={cursor}");
        let page = get(&app, "key-of-the-shop", &path).await.json();
        assert!(!page.to_string().contains(&of_club));
    }
}
