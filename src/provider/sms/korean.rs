//! How Korean gateways want a message: the kind by its length in EUC-KR, and the number as it is
//! dialled at home.

use serde::Serialize;

use crate::payment::sms_text::{MAX_SMS_BYTES, euc_kr_bytes, korean};
use crate::payment::{Payload, Recipient};
use crate::provider::redact::Redactor;

/// The kind of a message, which decides its price and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// At most 90 bytes, no subject.
    Sms,
    /// At most 2,000 bytes.
    Lms,
}

/// A text as a Korean gateway takes it.
pub struct KoreanText {
    /// Short, if it fits and has no title.
    pub kind: Kind,
    /// The title.
    pub subject: Option<String>,
    /// The text.
    pub text: String,
}

impl KoreanText {
    /// The same for the same payload, on every attempt.
    pub fn of(payload: &Payload) -> Self {
        let text = korean(&payload.body);
        let subject = payload.title.as_deref().map(korean);
        let short = euc_kr_bytes(&text).is_some_and(|bytes| bytes <= MAX_SMS_BYTES);
        Self {
            kind: match (short, &subject) {
                (true, None) => Kind::Sms,
                _ => Kind::Lms,
            },
            subject,
            text,
        }
    }

    /// The redactor, which then knows the characters that were sent in place of others.
    pub fn hidden_by(&self, redactor: Redactor) -> Redactor {
        redactor
            .with_text(&self.text)
            .with_text(self.subject.as_deref().unwrap_or_default())
    }
}

/// A phone number in two parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Number {
    /// Country calling code, digits only.
    pub country: String,
    /// As it is dialled within the country, digits only; of a Korean number with its leading 0.
    pub national: String,
}

impl Number {
    /// Of a recipient in E.164; `None` when it is no phone number.
    pub fn of(recipient: &Recipient) -> Option<Self> {
        let number = phonenumber::parse(None, recipient.as_str()).ok()?;
        let country = number.code().value().to_string();
        let national = recipient.as_str().strip_prefix('+')?;
        let national = national.strip_prefix(&country)?;
        let zero = if country == "82" { "0" } else { "" };
        Some(Self {
            national: format!("{zero}{national}"),
            country,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn text(title: Option<&str>, body: &str) -> KoreanText {
        KoreanText::of(&Payload {
            title: title.map(str::to_owned),
            body: body.to_owned(),
            data: Default::default(),
        })
    }

    #[test]
    fn the_kind_follows_the_length_in_euc_kr() {
        let table = [
            (None, "가".repeat(45), Kind::Sms),
            (None, "가".repeat(45) + "a", Kind::Lms),
            (None, "a".repeat(90), Kind::Sms),
            (Some("제목"), "a".to_owned(), Kind::Lms),
            (None, "😀".to_owned(), Kind::Lms),
            // A won sign is one character, and two bytes as 원.
            (None, "₩".repeat(45), Kind::Sms),
            (None, "\r\n".repeat(90), Kind::Sms),
        ];
        for (title, body, kind) in table {
            assert_eq!(text(title, &body).kind, kind, "{body}");
        }
        assert_eq!(text(Some("₩1"), "₩2").subject.as_deref(), Some("원1"));
        assert_eq!(text(None, "₩2\r\n").text, "원2\n");
    }

    #[test]
    fn numbers_are_split() {
        let split = |number: &str| {
            let number = Number::of(&Recipient::stored(number.to_owned()))?;
            Some((number.country, number.national))
        };
        let table = [
            ("+821012345678", "82", "01012345678"),
            ("+82111234567", "82", "0111234567"),
            ("+14155550123", "1", "4155550123"),
            ("+393401234567", "39", "3401234567"),
        ];
        for (number, country, national) in table {
            let (found_country, found_national) = split(number).unwrap();
            assert_eq!((&*found_country, &*found_national), (country, national));
        }
        for nobody in ["", "token", "01012345678", "+"] {
            assert_eq!(split(nobody), None, "{nobody}");
        }
    }
}
