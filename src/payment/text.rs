//! What a message says when the caller leaves the words to us.
//!
//! One template per event, channel and locale, plus one title per event and locale. The caller's
//! text is only ever a value in them, so `{{` in a description comes out as it went in.

use std::sync::LazyLock;

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use super::{Channel, Currency, Locale, PAYMENT_APPROVED};

/// Longest title, in characters.
pub const MAX_TITLE_CHARS: usize = 200;
/// Longest body, in characters.
pub const MAX_BODY_CHARS: usize = 2000;

/// What happened, as far as there are words for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A payment went through.
    PaymentApproved,
}

impl Event {
    /// The label written on outbox rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PaymentApproved => PAYMENT_APPROVED,
        }
    }
}

/// What the templates may speak of.
#[derive(Debug, Clone, Copy)]
pub struct PaymentFacts<'a> {
    /// The caller's own reference.
    pub order_id: &'a str,
    /// Amount in the currency's minor unit.
    pub amount: i64,
    /// Currency of the amount.
    pub currency: Currency,
    /// The caller's description, if any.
    pub description: Option<&'a str>,
}

/// The rendered words.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub struct Text {
    /// A title for channels that show one by default; at most [`MAX_TITLE_CHARS`].
    pub title: Option<String>,
    /// The text; at most [`MAX_BODY_CHARS`].
    pub body: String,
}

/// Puts an event into words.
pub fn render(event: Event, channel: Channel, locale: Locale, facts: &PaymentFacts<'_>) -> Text {
    let values = context! {
        amount => facts.currency.format(facts.amount, locale),
        order_id => facts.order_id,
        description => facts.description,
    };
    let title = match channel {
        Channel::Sms => None,
        Channel::Fcm => Some(fill(title_template(event, locale), &values)),
    };
    Text {
        title: title.map(|text| shorten(text, MAX_TITLE_CHARS)),
        body: shorten(
            fill(body_template(event, channel, locale), &values),
            MAX_BODY_CHARS,
        ),
    }
}

/// Name of the template of a body.
fn body_template(event: Event, channel: Channel, locale: Locale) -> &'static str {
    match (event, channel, locale) {
        (Event::PaymentApproved, Channel::Sms, Locale::Ko) => "payment_approved.sms.ko.txt",
        (Event::PaymentApproved, Channel::Sms, Locale::En) => "payment_approved.sms.en.txt",
        (Event::PaymentApproved, Channel::Fcm, Locale::Ko) => "payment_approved.fcm.ko.txt",
        (Event::PaymentApproved, Channel::Fcm, Locale::En) => "payment_approved.fcm.en.txt",
    }
}

/// Name of the template of a title.
fn title_template(event: Event, locale: Locale) -> &'static str {
    match (event, locale) {
        (Event::PaymentApproved, Locale::Ko) => "payment_approved.title.ko.txt",
        (Event::PaymentApproved, Locale::En) => "payment_approved.title.en.txt",
    }
}

/// A template's name and text, compiled in.
macro_rules! template {
    ($name:literal) => {
        ($name, include_str!(concat!("templates/", $name)))
    };
}

/// Every template of the program.
const TEMPLATES: [(&str, &str); 6] = [
    template!("payment_approved.sms.ko.txt"),
    template!("payment_approved.sms.en.txt"),
    template!("payment_approved.fcm.ko.txt"),
    template!("payment_approved.fcm.en.txt"),
    template!("payment_approved.title.ko.txt"),
    template!("payment_approved.title.en.txt"),
];

/// Parsed once, at the first message.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

#[expect(
    clippy::expect_used,
    reason = "the templates are part of the program and the tests render every one of them"
)]
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    for (name, source) in TEMPLATES {
        environment
            .add_template(name, source)
            .expect("a template of the program parses");
    }
    environment
}

#[expect(
    clippy::expect_used,
    reason = "the templates are part of the program and the tests render every one of them"
)]
fn fill(name: &str, values: &Value) -> String {
    ENVIRONMENT
        .get_template(name)
        .and_then(|template| template.render(values.clone()))
        .expect("a template of the program renders")
}

/// Cuts after `max` characters, the last of which is then an ellipsis.
fn shorten(text: String, max: usize) -> String {
    if text.chars().count() <= max {
        return text;
    }
    let mut cut: String = text.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn approved(channel: Channel, locale: Locale, description: Option<&str>) -> Text {
        let facts = PaymentFacts {
            order_id: "match-2026-1130-07",
            amount: 15_000,
            currency: Currency::parse("KRW").unwrap(),
            description,
        };
        render(Event::PaymentApproved, channel, locale, &facts)
    }

    /// Bytes in EUC-KR, as Korean carriers count a text.
    fn euc_kr_bytes(text: &str) -> usize {
        text.chars()
            .map(|character| if character.is_ascii() { 1 } else { 2 })
            .sum()
    }

    #[test]
    fn every_combination_reads_well() {
        use Channel::{Fcm, Sms};
        use Locale::{En, Ko};
        let cases = [
            (
                (Sms, Ko),
                None,
                "15,000원 결제가 승인되었습니다.\n토요일 19시 풋살\n주문번호: match-2026-1130-07",
            ),
            (
                (Sms, En),
                None,
                "₩15,000 paid.\n토요일 19시 풋살\nOrder: match-2026-1130-07",
            ),
            (
                (Fcm, Ko),
                Some("결제 승인"),
                "15,000원 결제가 승인되었습니다.\n토요일 19시 풋살",
            ),
            (
                (Fcm, En),
                Some("Payment approved"),
                "Your payment of ₩15,000 was approved.\n토요일 19시 풋살",
            ),
        ];
        for ((channel, locale), title, body) in cases {
            let text = approved(channel, locale, Some("토요일 19시 풋살"));
            assert_eq!(text.title.as_deref(), title);
            assert_eq!(text.body, body);
        }
    }

    #[test]
    fn every_combination_does_without_a_description() {
        for channel in Channel::ALL {
            for locale in [Locale::Ko, Locale::En] {
                for description in [None, Some("")] {
                    let text = approved(channel, locale, description);
                    assert!(text.body.contains("15,000"), "{text:?}");
                    assert!(!text.body.contains("none"), "{text:?}");
                    assert!(!text.body.contains("\n\n"), "{text:?}");
                    assert_eq!(text.body, text.body.trim(), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn an_ordinary_korean_sms_is_one_short_message() {
        let text = approved(Channel::Sms, Locale::Ko, Some("토요일 19시 풋살"));
        let bytes = euc_kr_bytes(&text.body);
        assert!(bytes <= 90, "{bytes} bytes: {}", text.body);
    }

    #[test]
    fn the_callers_text_comes_out_as_it_went_in() {
        for description in [
            "{{ amount }} {% if %} {# x",
            "<b>&amp;\"'</b>",
            "a\\nb 100%",
        ] {
            for channel in Channel::ALL {
                let text = approved(channel, Locale::En, Some(description));
                assert!(text.body.contains(description), "{}", text.body);
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_on_a_character() {
        let text = approved(Channel::Sms, Locale::Ko, Some(&"가".repeat(3000)));
        assert_eq!(text.body.chars().count(), MAX_BODY_CHARS);
        assert!(text.body.ends_with("가…"));
        assert_eq!(shorten("가나다".to_owned(), 3), "가나다");
        assert_eq!(shorten("가나다라".to_owned(), 3), "가나…");
    }
}
