#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod approval;
mod meaning;
mod notifications;
mod sms_words;

use super::*;

fn rules() -> Rules {
    Rules {
        region: Region::KR,
        default_locale: Locale::Ko,
        channels: Channel::ALL.to_vec(),
        sms_text: Default::default(),
    }
}

fn accept(body: &str) -> PaymentRequest {
    parse(body.as_bytes(), &rules()).unwrap()
}

fn refuse(body: &[u8]) -> Faults {
    parse(body, &rules()).unwrap_err()
}

/// The pointers at fault, and whether the body is malformed.
fn faults_of(body: &str) -> (bool, Vec<String>) {
    let faults = refuse(body.as_bytes());
    let pointers = faults.as_slice().iter().map(|fault| fault.pointer.clone());
    (faults.is_malformed(), pointers.collect())
}

/// A valid request whose top-level fields are replaced or completed by `fields`.
fn with(fields: &[(&str, &str)]) -> String {
    let mut all = vec![
        ("order_id", r#""order-1""#),
        ("amount", "15000"),
        ("currency", r#""KRW""#),
        (
            "notifications",
            r#"[{"channel":"sms","to":"010-1234-5678"}]"#,
        ),
    ];
    for (name, value) in fields {
        all.retain(|(known, _)| known != name);
        all.push((name, value));
    }
    let members: Vec<_> = all
        .iter()
        .map(|(name, value)| format!("{name:?}:{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// A valid request with these notifications.
fn notifying(entries: &str) -> String {
    with(&[("notifications", &format!("[{entries}]"))])
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn takes_a_whole_request() {
    let request = accept(
        r#"{ "order_id": "match-2026-1130-07", "amount": 15000, "currency": "KRW",
             "description": "Sat 19:00\r\nfutsal", "locale": "ko",
             "notifications": [
               { "channel": "sms", "to": "010-1234-5678" },
               { "channel": "fcm", "to": "token", "title": "Paid", "body": "See you\ron Saturday",
                 "data": { "screen": "match/07" } } ] }"#,
    );
    assert_eq!(request.order_id, "match-2026-1130-07");
    assert_eq!((request.amount, request.currency.code()), (15_000, "KRW"));
    assert_eq!(request.description.as_deref(), Some("Sat 19:00\nfutsal"));
    assert_eq!(request.locale.as_deref(), Some("ko"));
    let [sms, fcm] = request.notifications.as_slice() else {
        panic!("two notifications: {request:?}");
    };
    assert_eq!(sms.recipient.as_str(), "+821012345678");
    assert_eq!((&sms.title, &sms.body), (&None, &None));
    assert_eq!(fcm.title.as_deref(), Some("Paid"));
    assert_eq!(fcm.body.as_deref(), Some("See you\non Saturday"));
    assert_eq!(fcm.data["screen"], "match/07");
}

#[test]
fn what_is_not_json_is_one_fault_that_does_not_repeat_the_body() {
    let deep = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
    let bodies: [&[u8]; 12] = [
        b"",
        b" ",
        b"hunter2",
        b"{",
        b"{\"order_id\":\"hunter2\"",
        b"{} hunter2",
        b"{}{}",
        b"{\"amount\":NaN}",
        b"{\"amount\":+1}",
        b"{\"amount\":007}",
        b"{\"order_id\":\"hunter2\xff\"}",
        &deep.as_bytes()[..70_000],
    ];
    for body in bodies {
        let faults = refuse(body);
        assert!(faults.is_malformed());
        let [fault] = faults.as_slice() else {
            panic!("one fault: {faults:?}");
        };
        assert_eq!(fault.pointer, "");
        assert!(!fault.detail.contains("hunter2"), "{fault:?}");
    }
    let faults = refuse(b"{\n  \"amount\": x }");
    assert!(
        faults.as_slice()[0].detail.contains("line 2 column 13"),
        "{faults:?}"
    );
}

#[test]
fn every_wrong_type_is_malformed_at_its_place() {
    for body in ["[]", "null", "1", "\"x\"", "true"] {
        assert_eq!(faults_of(body), (true, vec![String::new()]), "{body}");
    }
    let nested = "[".repeat(5_000) + &"]".repeat(5_000);
    for field in ["order_id", "currency", "description", "locale"] {
        for value in ["1", "true", "[]", "{}", nested.as_str()] {
            let expected = (true, vec![format!("/{field}")]);
            assert_eq!(faults_of(&with(&[(field, value)])), expected);
        }
    }
    for value in ["1", "\"sms\"", "{}", "true"] {
        let expected = (true, vec!["/notifications".to_owned()]);
        assert_eq!(faults_of(&with(&[("notifications", value)])), expected);
    }
}

#[test]
fn amount_is_an_integer_literal_within_its_range() {
    for (literal, amount) in [("1", 1), ("9007199254740991", MAX_AMOUNT)] {
        assert_eq!(accept(&with(&[("amount", literal)])).amount, amount);
    }
    let malformed = [
        "1e3", "1E3", "100.0", "0.1", "-1.5", "\"100\"", "true", "[]", "{}",
    ];
    for literal in malformed {
        let expected = (true, vec!["/amount".to_owned()]);
        assert_eq!(
            faults_of(&with(&[("amount", literal)])),
            expected,
            "{literal}"
        );
    }
    let out_of_range = [
        "0",
        "-0",
        "-1",
        "9007199254740992",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "null",
    ];
    for literal in out_of_range {
        let expected = (false, vec!["/amount".to_owned()]);
        assert_eq!(
            faults_of(&with(&[("amount", literal)])),
            expected,
            "{literal}"
        );
    }
    let endless = "9".repeat(10_000);
    let faults = refuse(with(&[("amount", &endless)]).as_bytes());
    assert!(faults.as_slice()[0].detail.len() < 100, "{faults:?}");
}

#[test]
fn required_fields_may_be_neither_left_out_nor_null() {
    let all: Vec<String> = ["/order_id", "/amount", "/currency", "/notifications"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(faults_of("{}"), (false, all.clone()));
    let nulls = r#"{"order_id":null,"amount":null,"currency":null,"notifications":null}"#;
    assert_eq!(faults_of(nulls), (false, all));
    let request = accept(&with(&[("description", "null"), ("locale", "null")]));
    assert_eq!((request.description, request.locale), (None, None));
}

#[test]
fn lengths_are_counted_in_characters() {
    let fits = [("order_id", 128), ("description", 500)];
    for (field, max) in fits {
        for character in ["a", "가", "😀"] {
            accept(&with(&[(field, &json_string(&character.repeat(max)))]));
            let long = json_string(&character.repeat(max + 1));
            assert_eq!(
                faults_of(&with(&[(field, &long)])),
                (false, vec![format!("/{field}")])
            );
        }
    }
    assert_eq!(
        faults_of(&with(&[("order_id", r#""""#)])),
        (false, vec!["/order_id".to_owned()])
    );
    accept(&with(&[("description", r#""""#)]));
}

#[test]
fn control_characters_are_refused_where_they_mean_nothing() {
    for text in [
        r#""a\u0000""#,
        r#""a\n""#,
        r#""\t""#,
        r#""\u007f""#,
        r#""\u0085""#,
    ] {
        let expected = (false, vec!["/order_id".to_owned()]);
        assert_eq!(faults_of(&with(&[("order_id", text)])), expected, "{text}");
    }
    for text in [r#""a\u0000""#, r#""\u001b[31m""#, r#""\u0007""#] {
        let expected = (false, vec!["/description".to_owned()]);
        assert_eq!(
            faults_of(&with(&[("description", text)])),
            expected,
            "{text}"
        );
    }
    let request = accept(&with(&[("description", r#""a\tb\r\nc\rd\ne""#)]));
    assert_eq!(request.description.as_deref(), Some("a\tb\nc\nd\ne"));
}

#[test]
fn broken_escapes_are_malformed() {
    for (body, pointer) in [
        (with(&[("order_id", r#""\ud800""#)]), "/order_id"),
        (with(&[("description", r#""a\udc00b""#)]), "/description"),
        (r#"{"\ud800":1}"#.to_owned(), ""),
        (notifying(r#"{"\udfff":1}"#), "/notifications/0"),
    ] {
        assert_eq!(faults_of(&body), (true, vec![pointer.to_owned()]), "{body}");
    }
}

#[test]
fn currency_is_a_code_in_use() {
    for code in ["usd", "XXQ", "HRK", "XAU", "", "KRW "] {
        let body = with(&[("currency", &json_string(code))]);
        assert_eq!(
            faults_of(&body),
            (false, vec!["/currency".to_owned()]),
            "{code}"
        );
    }
}

#[test]
fn locale_is_a_language_tag() {
    use Locale::{En, Ko};
    let default = Rules {
        default_locale: En,
        ..rules()
    };
    for (tag, ko_is_default, en_is_default) in [
        ("ko", Ko, Ko),
        ("ko-KR", Ko, Ko),
        ("KO-kr", Ko, Ko),
        ("ko-Kore-KR", Ko, Ko),
        ("en", En, En),
        ("en-US", En, En),
        ("en-GB-oed", En, En),
        ("en-x-a", En, En),
        ("ja", Ko, En),
        ("zh-Hant-TW", Ko, En),
        ("de-1996", Ko, En),
        ("es-419", Ko, En),
        ("x-private", Ko, En),
        ("i-klingon", Ko, En),
        ("kok", Ko, En),
        ("english", Ko, En),
    ] {
        let body = with(&[("locale", &json_string(tag))]);
        assert_eq!(accept(&body).text_locale, ko_is_default, "{tag}");
        let other = parse(body.as_bytes(), &default).unwrap();
        assert_eq!(other.text_locale, en_is_default, "{tag}");
        assert_eq!(other.locale.as_deref(), Some(tag));
    }
    let long = format!("en{}", "-abcdefgh".repeat(8));
    for tag in [
        "",
        "k",
        "ko_KR",
        "ko-",
        "-ko",
        "ko--KR",
        "ko KR",
        "한국어",
        "ko-KR\u{0}",
        "1a",
        "en-a",
        "abcdefghi",
        "en-abcdefghi",
        "x",
        "*",
        &long,
    ] {
        let body = with(&[("locale", &json_string(tag))]);
        assert_eq!(
            faults_of(&body),
            (false, vec!["/locale".to_owned()]),
            "{tag:?}"
        );
    }
}

#[test]
fn unknown_and_repeated_fields_are_malformed() {
    for (body, pointer) in [
        (with(&[("orderId", "1")]), "/orderId"),
        (with(&[("a/b~c", "null")]), "/a~1b~0c"),
        (with(&[("", "{}")]), "/"),
        (r#"{"amount":1,"#.to_owned() + &with(&[])[1..], "/amount"),
        (
            r#"{"\u0061mount":15000,"#.to_owned() + &with(&[])[1..],
            "/amount",
        ),
        (
            r#"{"locale":null,"locale":null,"#.to_owned() + &with(&[])[1..],
            "/locale",
        ),
    ] {
        assert_eq!(faults_of(&body), (true, vec![pointer.to_owned()]), "{body}");
    }
}

#[test]
fn all_faults_come_at_once_and_the_worst_names_the_class() {
    let body = r#"{"order_id":"","amount":1.5,"currency":"usd","extra":1,
        "notifications":[{"channel":"sms","to":"02-973-3456"},{"channel":"fcm"}]}"#;
    let expected = [
        "/order_id",
        "/amount",
        "/currency",
        "/notifications/0/to",
        "/notifications/1/to",
        "/extra",
    ];
    assert_eq!(
        faults_of(body),
        (true, expected.map(str::to_owned).to_vec())
    );
    let rules_only = r#"{"order_id":"","amount":0,"currency":"usd","notifications":[]}"#;
    let expected = ["/order_id", "/amount", "/currency", "/notifications"];
    assert_eq!(
        faults_of(rules_only),
        (false, expected.map(str::to_owned).to_vec())
    );
}

#[test]
fn debug_output_shows_no_personal_data() {
    let request = accept(&with(&[
        ("description", r#""private words""#),
        (
            "notifications",
            r#"[{"channel":"sms","to":"010-9731-5678","title":"secret","body":"secret"}]"#,
        ),
    ]));
    let shown = format!("{request:?}");
    for hidden in ["9731", "secret", "private"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
}
