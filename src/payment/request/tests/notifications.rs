use super::*;

fn pointers(entries: &str) -> (bool, Vec<String>) {
    faults_of(&notifying(entries))
}

fn at(field: &str) -> Vec<String> {
    vec![format!("/notifications/0{field}")]
}

/// A valid push with this `data`.
fn push(data: &str) -> String {
    format!(r#"{{"channel":"fcm","to":"token","data":{data}}}"#)
}

/// JSON of an object with `count` keys.
fn object_of(count: usize) -> String {
    let members: Vec<_> = (0..count).map(|n| format!(r#""k{n}":"v""#)).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn there_are_one_to_twenty() {
    let entry = |n: usize| format!(r#"{{"channel":"fcm","to":"token-{n}"}}"#);
    let entries = |count: usize| (0..count).map(entry).collect::<Vec<_>>().join(",");
    assert_eq!(accept(&notifying(&entries(20))).notifications.len(), 20);
    for count in [0, 21, 500] {
        let expected = (false, vec!["/notifications".to_owned()]);
        assert_eq!(pointers(&entries(count)), expected, "{count}");
    }
}

#[test]
fn the_same_recipient_twice_is_an_error_at_the_second() {
    let twice = r#"{"channel":"sms","to":"010-1234-5678"},{"channel":"fcm","to":"token"},
        {"channel":"sms","to":"+82 10 1234 5678"},{"channel":"fcm","to":"token"}"#;
    let expected = ["/notifications/2/to", "/notifications/3/to"].map(str::to_owned);
    assert_eq!(pointers(twice), (false, expected.to_vec()));
    // One number over two channels is two messages.
    accept(&notifying(
        r#"{"channel":"sms","to":"01012345678"},{"channel":"fcm","to":"01012345678"}"#,
    ));
}

#[test]
fn entries_have_their_types_and_required_fields() {
    for entry in ["null", "1", "\"sms\"", "[]"] {
        assert_eq!(pointers(entry), (true, at("")), "{entry}");
    }
    let both = ["/notifications/0/channel", "/notifications/0/to"].map(str::to_owned);
    assert_eq!(pointers("{}"), (false, both.to_vec()));
    for (field, value) in [
        ("channel", "1"),
        ("to", "1"),
        ("title", "1"),
        ("body", "[]"),
    ] {
        let mut fields = vec![("channel", r#""fcm""#), ("to", r#""t""#)];
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        let members: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name:?}:{value}"))
            .collect();
        let entry = format!("{{{}}}", members.join(","));
        assert_eq!(
            pointers(&entry),
            (true, at(&format!("/{field}"))),
            "{entry}"
        );
    }
    let unknown = r#"{"channel":"fcm","to":"t","topic":"x"}"#;
    assert_eq!(pointers(unknown), (true, at("/topic")));
    let twice = r#"{"channel":"fcm","to":"t","to":"u"}"#;
    assert_eq!(pointers(twice), (true, at("/to")));
}

#[test]
fn a_channel_is_known_and_configured() {
    for name in ["SMS", "email", "", "sms "] {
        let entry = format!(r#"{{"channel":{},"to":"x"}}"#, json_string(name));
        assert_eq!(pointers(&entry), (false, at("/channel")), "{name}");
    }
    let only_fcm = Rules {
        channels: vec![Channel::Fcm],
        ..rules()
    };
    let faults = parse(with(&[]).as_bytes(), &only_fcm).unwrap_err();
    assert!(!faults.is_malformed());
    assert_eq!(faults.as_slice()[0].pointer, "/notifications/0/channel");
}

#[test]
fn a_recipient_fits_its_channel_and_is_never_repeated_in_full() {
    for (channel, to) in [
        ("sms", "02-973-3456"),
        ("sms", "1973-1234"),
        ("sms", ""),
        ("sms", "token"),
        ("sms", "010\n97311234"),
        ("fcm", ""),
        ("fcm", "a b"),
        ("fcm", "tok\u{0}en"),
    ] {
        let body = notifying(&format!(
            r#"{{"channel":"{channel}","to":{}}}"#,
            json_string(to)
        ));
        let faults = refuse(body.as_bytes());
        assert!(!faults.is_malformed());
        assert_eq!(
            faults.as_slice()[0].pointer,
            "/notifications/0/to",
            "{to:?}"
        );
        assert!(!faults.as_slice()[0].detail.contains("973"), "{faults:?}");
    }
}

#[test]
fn words_are_bounded_and_say_something() {
    for (field, max) in [("title", 200), ("body", 2000)] {
        let entry = |text: &str| {
            format!(
                r#"{{"channel":"sms","to":"01012345678","{field}":{}}}"#,
                json_string(text)
            )
        };
        accept(&notifying(&entry(&"가".repeat(max))));
        let too_long = "가".repeat(max + 1);
        for text in ["", " \n", "nul\u{0}", "bell\u{7}", &too_long] {
            let expected = (false, at(&format!("/{field}")));
            assert_eq!(pointers(&entry(text)), expected, "{field} {text:?}");
        }
    }
    let two_lines = r#"{"channel":"fcm","to":"t","title":"a\nb"}"#;
    assert_eq!(pointers(two_lines), (false, at("/title")));
}

#[test]
fn data_is_a_small_map_of_strings_for_a_push() {
    let taken = accept(&notifying(&push(
        r#"{"screen":"match/07","gone":null,"empty":""}"#,
    )));
    let keys: Vec<_> = taken.notifications[0].data.keys().collect();
    assert_eq!(keys, ["empty", "screen"]);
    accept(&notifying(&push(&object_of(20))));
    accept(&notifying(&push(&format!(
        r#"{{"k":"{}"}}"#,
        "v".repeat(2047)
    ))));

    let too_many_bytes = format!(r#"{{"가":"{}"}}"#, "v".repeat(2046));
    for data in [object_of(21), too_many_bytes] {
        assert_eq!(pointers(&push(&data)), (false, at("/data")), "{data}");
    }
    for value in ["1", "true", "[]", "{}"] {
        let data = format!(r#"{{"k":{value}}}"#);
        assert_eq!(pointers(&push(&data)), (true, at("/data/k")), "{value}");
    }
    for data in ["[]", "1", "\"x\""] {
        assert_eq!(pointers(&push(data)), (true, at("/data")), "{data}");
    }
    assert_eq!(
        pointers(&push(r#"{"k":"1","k":"2"}"#)),
        (true, at("/data/k"))
    );
    assert_eq!(
        pointers(&push(r#"{"k":"a\u0000"}"#)),
        (false, at("/data/k"))
    );
    let sms = r#"{"channel":"sms","to":"01012345678","data":{"k":"v"}}"#;
    assert_eq!(pointers(sms), (false, at("/data")));
}

#[test]
fn reserved_keys_of_data_are_refused() {
    for key in [
        "from",
        "message_type",
        "collapse_key",
        "google",
        "google.c.a.e",
        "gcm",
        "gcm.n.e",
        "payment_id",
        "event_type",
        "outbox_id",
    ] {
        let data = format!(r#"{{"{key}":"v"}}"#);
        assert_eq!(
            pointers(&push(&data)),
            (false, at(&format!("/data/{key}"))),
            "{key}"
        );
    }
    assert_eq!(pointers(&push(r#"{"":"v"}"#)), (false, at("/data/")));
    assert_eq!(
        pointers(&push(r#"{"a\u0000":"v"}"#)),
        (false, at("/data/a\u{0}"))
    );
    accept(&notifying(&push(
        r#"{"From":"v","my_google":"v","order_id":"v"}"#,
    )));
}
