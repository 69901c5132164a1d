//! What a text message can carry, by the kind of the provider. Pure: the configured provider names
//! its rule, requests are checked against it, and the adapters build what they send from the same
//! functions, so that what was accepted at the door can always be sent.

use std::borrow::Cow;

use encoding_rs::EUC_KR;
use unicode_normalization::UnicodeNormalization;

/// Longest text of a short Korean message, in bytes of EUC-KR.
/// Source: <https://api.ncloud-docs.com/docs/en/ai-application-service-sens-smsv2>
pub const MAX_SMS_BYTES: usize = 90;

/// Longest text of a long Korean message, in bytes of EUC-KR. Same source.
pub const MAX_LMS_BYTES: usize = 2_000;

/// Longest subject of a long Korean message, in bytes of EUC-KR. Same source.
pub const MAX_SUBJECT_BYTES: usize = 40;

/// Longest text of a message at Twilio, in UTF-16 units.
/// Source: <https://www.twilio.com/docs/messaging/api/message-resource>
pub const MAX_TWILIO_UNITS: usize = 1_600;

/// So many unmappable characters are named in an error.
const MAX_NAMED: usize = 5;

/// What the provider of text messages can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SmsText {
    /// Any text.
    #[default]
    Any,
    /// Any character; title and text together in one body of limited length (Twilio).
    OneBody,
    /// A title of 40 and a text of 2,000 bytes, in EUC-KR (Korean carriers).
    EucKr,
}

/// Which of a message's texts an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The title, or subject.
    Title,
    /// The text itself.
    Body,
}

impl SmsText {
    /// What of these texts the provider cannot carry, as sentences that follow the name of the part.
    /// A part that is not known yet is `None` and never at fault.
    pub fn faults(self, title: Option<&str>, body: Option<&str>) -> Vec<(Part, String)> {
        match self {
            Self::Any => Vec::new(),
            Self::OneBody => body
                .and_then(|body| too_many_units(&one_body(title, body)))
                .map(|fault| (Part::Body, fault))
                .into_iter()
                .collect(),
            Self::EucKr => {
                let title = title.and_then(|text| euc_kr_fault(text, MAX_SUBJECT_BYTES));
                let body = body.and_then(|text| euc_kr_fault(text, MAX_LMS_BYTES));
                let title = title.map(|fault| (Part::Title, fault));
                let body = body.map(|fault| (Part::Body, fault));
                title.into_iter().chain(body).collect()
            }
        }
    }
}

/// Title and text as one, for providers that know no subject.
pub fn one_body<'a>(title: Option<&str>, body: &'a str) -> Cow<'a, str> {
    match title {
        Some(title) => Cow::Owned(format!("{title}\n{body}")),
        None => Cow::Borrowed(body),
    }
}

/// The text in the spelling that EUC-KR has: composed Hangul, 원 for the won sign, which EUC-KR
/// lacks, and `\n` as the only line break.
pub fn korean(text: &str) -> String {
    let composed: String = text.nfc().collect();
    composed
        .replace('\u{20A9}', "원")
        .replace("\r\n", "\n")
        .replace('\r', "\n")
}

/// How many bytes a [`korean`] text takes in EUC-KR; `None` when it has a character that EUC-KR
/// lacks.
///
/// EUC-KR is read as every carrier of today does, with the syllables of code page 949.
pub fn euc_kr_bytes(text: &str) -> Option<usize> {
    let (bytes, _, unmappable) = EUC_KR.encode(text);
    (!unmappable).then_some(bytes.len())
}

fn euc_kr_fault(text: &str, max_bytes: usize) -> Option<String> {
    let text = korean(text);
    match euc_kr_bytes(&text) {
        None => Some(unmappable(&text)),
        Some(bytes) if bytes > max_bytes => Some(format!(
            "has {bytes} bytes in EUC-KR; the SMS provider takes at most {max_bytes} (a Korean \
             syllable has 2): shorten it"
        )),
        Some(_) => None,
    }
}

fn too_many_units(text: &str) -> Option<String> {
    let units = text.encode_utf16().count();
    (units > MAX_TWILIO_UNITS).then(|| {
        format!(
            "has {units} characters, its title included; the SMS provider takes at most \
             {MAX_TWILIO_UNITS}: shorten it"
        )
    })
}

/// Names the characters that EUC-KR lacks, each once.
fn unmappable(text: &str) -> String {
    let mut missing: Vec<char> = Vec::new();
    for character in text.chars() {
        let lacking = euc_kr_bytes(character.encode_utf8(&mut [0; 4])).is_none();
        if lacking && !missing.contains(&character) {
            missing.push(character);
        }
    }
    let named: Vec<String> = missing
        .iter()
        .take(MAX_NAMED)
        .map(|c| format!("{c:?} (U+{:04X})", u32::from(*c)))
        .collect();
    let more = match missing.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "has characters that the SMS provider cannot send: {}{more}; leave them out",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_spelled_as_euc_kr_has_them() {
        assert_eq!(korean("\u{20A9}15,000"), "원15,000");
        assert_eq!(korean("\u{1112}\u{1161}\u{11AB}"), "한");
        assert_eq!(korean("a\r\nb\rc\n"), "a\nb\nc\n");
    }

    #[test]
    fn bytes_are_counted_as_carriers_count() {
        let table = [
            ("", Some(0)),
            ("abc\n", Some(4)),
            ("결제 승인", Some(9)),
            ("뷁햏…", Some(6)),
            ("😀", None),
            ("—", None),
            ("\u{a0}", None),
            ("\u{200b}", None),
            ("é", None),
        ];
        for (text, expected) in table {
            assert_eq!(euc_kr_bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_rule_names_what_it_refuses() {
        let faults = SmsText::EucKr.faults(Some("a—b"), Some("😀 hi 😀 é"));
        assert_eq!(faults[0].0, Part::Title);
        assert!(faults[0].1.contains("'—' (U+2014);"), "{faults:?}");
        assert_eq!(faults[1].0, Part::Body);
        assert!(
            faults[1].1.contains("'😀' (U+1F600), 'é' (U+00E9); leave"),
            "{faults:?}"
        );
        let many = SmsText::EucKr.faults(None, Some("àèìòùâê"));
        assert!(many[0].1.contains("and 2 more"), "{many:?}");
    }

    #[test]
    fn lengths_are_bounded_exactly() {
        let fits = |rule: SmsText, title: Option<&str>, body: &str| {
            rule.faults(title, Some(body)).is_empty()
        };
        assert!(fits(
            SmsText::EucKr,
            Some(&"가".repeat(20)),
            &"가".repeat(1_000)
        ));
        assert!(!fits(SmsText::EucKr, Some(&"가".repeat(21)), "a"));
        assert!(!fits(SmsText::EucKr, None, &("가".repeat(1_000) + "a")));
        assert!(fits(SmsText::OneBody, None, &"가".repeat(1_600)));
        assert!(fits(SmsText::OneBody, None, &"😀".repeat(800)));
        assert!(!fits(SmsText::OneBody, None, &"😀".repeat(801)));
        assert!(fits(SmsText::OneBody, Some("ab"), &"x".repeat(1_597)));
        assert!(!fits(SmsText::OneBody, Some("ab"), &"x".repeat(1_598)));
        assert!(fits(SmsText::Any, Some("😀"), &"😀".repeat(5_000)));
        assert_eq!(SmsText::EucKr.faults(None, None), []);
    }

    proptest! {
        #[test]
        fn a_korean_text_stays_as_it_is(text in any::<String>()) {
            let once = korean(&text);
            prop_assert_eq!(korean(&once), once);
        }
    }
}
