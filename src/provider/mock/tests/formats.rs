//! What each dialect refuses.

use super::*;

#[tokio::test]
async fn the_gateway_checks_its_requests() {
    let mock = testing::mock();
    let with = |name: &str, value: Value| {
        let mut body = sms(PHONE);
        body[name] = value;
        body
    };
    let mut without_text = sms(PHONE);
    without_text.as_object_mut().unwrap().remove("text");
    let bad = [
        with("to", json!("010-1234-5678")),
        with("to", json!("+0123456789")),
        with("to", json!("+8210123456789012")),
        with("to", json!(821012345678_u64)),
        with("text", json!("")),
        with("text", json!("x".repeat(2_001))),
        with("from", json!("")),
        with("title", json!(7)),
        with("id", json!("")),
        with("unknown", json!("x")),
        without_text,
        json!([]),
    ];
    for body in bad {
        let reply = send(&mock, &client(), &body).await.unwrap();
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.json().unwrap()["message"].is_string(), "{body}");
    }
    let url = endpoint(&mock.sms_base_url(), &["messages"]);
    let client = client();
    let keyless = client.call(|http| http.post(url.clone()).json(&sms(PHONE)));
    assert_eq!(keyless.await.unwrap().status, 400);
    let untyped = client.call(|http| http.post(url).body(sms(PHONE).to_string()));
    assert_eq!(untyped.await.unwrap().status, 415);
    assert_eq!(mock.requests(Target::Sms), 0);
    let longest = with("text", json!("가".repeat(2_000)));
    let reply = send(&mock, &client, &longest).await.unwrap();
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn fcm_checks_its_requests() {
    let mock = testing::mock();
    let with = |name: &str, value: Value| {
        let mut message = json!({ "token": TOKEN });
        message[name] = value;
        json!({ "message": message })
    };
    let bad = [
        json!({}),
        json!({ "message": {} }),
        json!({ "message": { "token": TOKEN }, "extra": 1 }),
        with("topic", json!("news")),
        with("token", json!("")),
        with("token", json!(7)),
        with("unknown", json!("x")),
        with("data", json!({ "amount": 15_000 })),
        with("data", json!({ "k": null })),
        with("data", json!({ "from": "x" })),
        with("data", json!({ "message_type": "x" })),
        with("data", json!({ "google.x": "x" })),
        with("data", json!({ "gcm_x": "x" })),
        with("data", json!({ "k": "v".repeat(4_096) })),
        with("notification", json!({ "body": "가".repeat(1_366) })),
        with("android", json!({ "ttl": "3600" })),
        with("android", json!({ "ttl": "-1s" })),
        with("android", json!({ "ttl": "2419201s" })),
        with("android", json!({ "priority": "URGENT" })),
        with("apns", json!({ "headers": { "apns-priority": 10 } })),
        with(
            "apns",
            json!({ "headers": { "apns-collapse-id": "x".repeat(65) } }),
        ),
    ];
    for body in bad {
        let reply = push(&mock, &body).await;
        assert_eq!(reply.status, 400, "{body}");
        let error = reply.json().unwrap();
        assert_eq!(error["error"]["status"], "INVALID_ARGUMENT", "{body}");
    }
    assert_eq!(mock.messages().len(), 0);

    let good = [
        with("data", json!({ "k": "v".repeat(4_095) })),
        with(
            "android",
            json!({ "ttl": "3.5s", "priority": "HIGH", "collapse_key": "x" }),
        ),
        json!({ "message": { "topic": "news" } }),
        json!({ "message": { "token": TOKEN }, "validate_only": true }),
    ];
    for body in good {
        assert_eq!(push(&mock, &body).await.status, 200, "{body}");
    }
    assert_eq!(mock.messages().len(), 3, "validate_only stores nothing");
}
