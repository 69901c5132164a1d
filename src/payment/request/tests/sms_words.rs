//! What the provider of text messages cannot carry is refused at the door.

use super::*;
use crate::payment::sms_text::SmsText;

fn faults(sms_text: SmsText, body: &str) -> Vec<(String, String)> {
    let rules = Rules {
        sms_text,
        ..rules()
    };
    let Err(faults) = parse(body.as_bytes(), &rules) else {
        return Vec::new();
    };
    assert!(!faults.is_malformed(), "{faults:?}");
    let faults = faults.into_vec().into_iter();
    faults.map(|fault| (fault.pointer, fault.detail)).collect()
}

fn sms(words: &str) -> String {
    notifying(&format!(
        r#"{{"channel":"fcm","to":"token","body":"😀"}},
           {{"channel":"sms","to":"010-1234-5678"{words}}}"#
    ))
}

#[test]
fn given_words_are_named_with_their_characters() {
    let request = sms(r#","title":"a—b","body":"see you 😀""#);
    let found = faults(SmsText::EucKr, &request);
    let pointers: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
    assert_eq!(
        pointers,
        ["/notifications/1/title", "/notifications/1/body"]
    );
    assert!(found[0].1.contains("U+2014"), "{found:?}");
    assert!(found[1].1.contains("U+1F600"), "{found:?}");
    assert_eq!(faults(SmsText::Any, &request), []);
    assert_eq!(faults(SmsText::OneBody, &request), []);
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let long = sms(&format!(r#","body":"{}""#, "가".repeat(1_001)));
    let found = faults(SmsText::EucKr, &long);
    assert_eq!(found[0].0, "/notifications/1/body");
    assert!(found[0].1.contains("2002 bytes"), "{found:?}");
    let title = sms(&format!(r#","title":"{}""#, "가".repeat(21)));
    let found = faults(SmsText::EucKr, &title);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "/notifications/1/title");
    let over = sms(&format!(r#","body":"{}""#, "가".repeat(1_601)));
    assert_eq!(faults(SmsText::OneBody, &over).len(), 1);
}

#[test]
fn a_description_must_fit_the_standard_text() {
    let request = with(&[("description", r#""futsal ⚽""#)]);
    let found = faults(SmsText::EucKr, &request);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "/notifications/0/body");
    assert!(found[0].1.contains("standard text"), "{found:?}");
    assert!(found[0].1.contains("U+26BD"), "{found:?}");
    // A body of one's own has no description in it.
    let own = r#"[{"channel":"sms","to":"010-1234-5678","body":"hello"}]"#;
    let request = with(&[("description", r#""⚽""#), ("notifications", own)]);
    assert_eq!(faults(SmsText::EucKr, &request), []);
}

#[test]
fn the_standard_texts_fit_every_provider() {
    for locale in ["ko", "en"] {
        for currency in ["KRW", "USD", "JPY", "EUR"] {
            let long = format!("{:?}", "가".repeat(500));
            let fields = [
                ("locale", format!("{locale:?}")),
                ("currency", format!("{currency:?}")),
                ("description", long),
            ];
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (*name, &**value))
                .collect();
            for rule in [SmsText::EucKr, SmsText::OneBody] {
                assert_eq!(faults(rule, &with(&fields)), [], "{locale} {currency}");
            }
        }
    }
}
