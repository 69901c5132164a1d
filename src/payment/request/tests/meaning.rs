use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn fingerprint(body: &str) -> [u8; 32] {
    accept(body).fingerprint
}

/// The fingerprint is stored with the payment: a release that changes it refuses every repeat of
/// an earlier request.
#[test]
fn the_canonical_form_is_stable() {
    use sha2::{Digest, Sha256};
    let canonical = concat!(
        r#"{"amount":15000,"currency":"KRW","notifications":[{"channel":"sms","#,
        r#""to":"010-1234-5678"}],"order_id":"order-1"}"#,
    );
    let expected: [u8; 32] = Sha256::digest(canonical).into();
    assert_eq!(fingerprint(&with(&[])), expected);
    assert_eq!(fingerprint(canonical), expected);
}

#[test]
fn the_same_meaning_is_the_same_request() {
    let plain = r#"{"order_id":"é","amount":15000,"currency":"KRW","notifications":[
        {"channel":"fcm","to":"t","data":{"a":"1","b":"2"}}]}"#;
    for same in [
        // Other order.
        r#"{"notifications":[{"data":{"b":"2","a":"1"},"to":"t","channel":"fcm"}],
            "currency":"KRW","amount":15000,"order_id":"é"}"#,
        // Escapes.
        r#"{"order_id":"\u00e9","\u0061mount":15000,"currency":"K\u0052W","notifications":[
            {"channel":"fcm","to":"t","data":{"a":"1","b":"2"}}]}"#,
        // Nulls at every level.
        r#"{"order_id":"é","amount":15000,"currency":"KRW","description":null,"locale":null,
            "notifications":[{"channel":"fcm","to":"t","title":null,"body":null,
            "data":{"a":"1","b":"2","c":null}}]}"#,
    ] {
        assert_eq!(fingerprint(same), fingerprint(plain), "{same}");
    }
}

#[test]
fn another_meaning_is_another_request() {
    let different = [
        with(&[]),
        with(&[("order_id", r#""order-2""#)]),
        with(&[("amount", "15001")]),
        with(&[("currency", r#""USD""#)]),
        with(&[("description", r#""""#)]),
        with(&[("description", r#""a\nb""#)]),
        with(&[("description", r#""a\r\nb""#)]),
        with(&[("locale", r#""ko""#)]),
        with(&[("locale", r#""ko-KR""#)]),
        notifying(r#"{"channel":"sms","to":"+821012345678"}"#),
        notifying(r#"{"channel":"sms","to":"010-1234-5678","title":"t"}"#),
        notifying(r#"{"channel":"sms","to":"010-1234-5678","body":"t"}"#),
        notifying(r#"{"channel":"fcm","to":"t"}"#),
        notifying(r#"{"channel":"fcm","to":"t","data":{}}"#),
        notifying(r#"{"channel":"fcm","to":"t","data":{"a":"b"}}"#),
        notifying(r#"{"channel":"fcm","to":"t"},{"channel":"fcm","to":"u"}"#),
        notifying(r#"{"channel":"fcm","to":"u"},{"channel":"fcm","to":"t"}"#),
    ];
    let seen: HashSet<_> = different.iter().map(|body| fingerprint(body)).collect();
    assert_eq!(seen.len(), different.len());
}

proptest! {
    #[test]
    fn field_order_and_layout_do_not_matter(
        order_id in "\\PC{1,20}",
        amount in 1..=MAX_AMOUNT,
        description in proptest::option::of("\\PC{0,40}"),
        data in proptest::collection::btree_map("[a-e]{1,8}", "\\PC{0,10}", 0..5),
        order in Just(vec!["order_id", "amount", "currency", "description", "notifications"]).prop_shuffle(),
    ) {
        let value = json!({
            "order_id": order_id, "amount": amount, "currency": "KRW", "description": description,
            "notifications": [{ "channel": "fcm", "to": "token", "data": data }],
        });
        let members: Vec<String> = order
            .iter()
            .map(|name| format!("{:?} :\n\t{}", name, serde_json::to_string_pretty(&value[name]).unwrap()))
            .collect();
        let shuffled = format!("{{ {} }}", members.join(" ,\r\n"));
        prop_assert_eq!(fingerprint(&shuffled), fingerprint(&value.to_string()));
    }

    #[test]
    fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&body, &rules()).is_err());
    }

    #[test]
    fn any_value_in_any_field_is_answered_at_that_field(
        field in prop::sample::select(vec!["order_id", "amount", "currency", "description", "locale", "notifications"]),
        text in "\\PC{0,30}",
        number in any::<f64>(),
    ) {
        for value in [json!(text), json!(number), json!([text]), json!({ text.clone(): number }), Value::Bool(true)] {
            let body = with(&[(field, &value.to_string())]);
            if let Err(faults) = parse(body.as_bytes(), &rules()) {
                let prefix = format!("/{field}");
                prop_assert!(faults.as_slice().iter().all(|fault| fault.pointer.starts_with(&prefix)));
            }
        }
    }
}
