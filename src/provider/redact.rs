//! Makes a provider's words safe to store, to log and to show.
//!
//! Providers echo what they were sent: "+15551234567 is invalid", a whole registration token, the
//! text itself. An [`Answer`] is therefore made only through a [`Redactor`].

use std::collections::HashSet;

use self::spelling::{Glyph, read};
use super::client::{Credentials, Reply};
use super::{Answer, Message};

mod spelling;

/// The longest text that is kept, in characters.
pub const MAX_CHARS: usize = 500;

/// How much of a text is looked at, in characters: enough that masking cannot starve the result.
const SCANNED_CHARS: usize = 4_096;

/// A piece of a secret this long gives it away, even when the provider cut the rest.
const SECRET_WINDOW: usize = 8;

/// A piece of a message text this long is a quotation; shorter ones are common words.
const QUOTE_WINDOW: usize = 16;

/// Runs with fewer digits are codes and sizes; from here on they may be a phone number.
const MIN_PHONE_DIGITS: usize = 7;

/// Country calling codes have at most this many digits.
const MAX_CODE_DIGITS: usize = 3;

/// Up to this length nothing of a number is shown; of longer ones the last four digits are.
const WHOLLY_MASKED_DIGITS: usize = 8;

const MASK: &[char] = &['*', '*', '*'];

/// Replaces control characters, masks phone numbers and other long digit runs, and cuts at
/// [`MAX_CHARS`].
pub fn safe_text(text: &str) -> String {
    Redactor::default().text(text)
}

/// Knows what must not be repeated: whom a message went to, what it said, and our keys.
#[derive(Default)]
pub struct Redactor {
    hidden: Vec<Hidden>,
}

struct Hidden {
    text: Vec<char>,
    window: usize,
}

impl Redactor {
    /// Hides the message's recipient and its texts, in whole and in pieces.
    pub fn for_message(message: &Message) -> Self {
        let recipient = message.recipient.as_str();
        let payload = &message.payload;
        let mut redactor = Self::default();
        match phone_digits(recipient) {
            // Left to the digit mask, which knows its other spellings too.
            Some(digits) if digits.len() >= MIN_PHONE_DIGITS + MAX_CODE_DIGITS => {}
            // What is left of it without its country's code is too short for the digit mask.
            Some(digits) => redactor.hide(digits, digits.len() - MAX_CODE_DIGITS),
            None => redactor.hide(recipient, SECRET_WINDOW),
        }
        redactor.hide(&payload.body, QUOTE_WINDOW);
        redactor.hide(payload.title.as_deref().unwrap_or_default(), QUOTE_WINDOW);
        for value in payload.data.values() {
            redactor.hide(value, QUOTE_WINDOW);
        }
        redactor
    }

    /// Hides a credential as well.
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.hide(secret, SECRET_WINDOW);
        self
    }

    /// Hides the message's text in the form in which it was sent, too.
    pub fn with_text(mut self, text: &str) -> Self {
        self.hide(text, QUOTE_WINDOW);
        self
    }

    fn hide(&mut self, text: &str, window: usize) {
        let text: Vec<char> = printable(text).chars().collect();
        // What it means: a secret may look like escapes itself.
        let text = meanings(&read(&text));
        if !text.is_empty() {
            let window = window.min(text.len());
            self.hidden.push(Hidden { text, window });
        }
    }

    /// The text made safe: see [`safe_text`].
    pub fn text(&self, text: &str) -> String {
        let text: Vec<char> = printable(text).chars().take(SCANNED_CHARS).collect();
        cut(mask_digits(&self.without_hidden(read(&text))))
    }

    /// Our own words, or those about a connection, made safe to keep.
    pub fn answer(&self, http_status: Option<u16>, text: &str) -> Answer {
        Answer {
            http_status,
            text: self.text(text),
        }
    }

    /// A provider's words made safe to keep. They may repeat whatever the request carried.
    pub fn answered(self, reply: &Reply, text: &str) -> Answer {
        self.with_credentials(&reply.credentials)
            .answer(Some(reply.status), text)
    }

    /// Hides what a request said about who we are.
    pub fn with_credentials(self, credentials: &Credentials) -> Self {
        credentials.iter().fold(self, Self::with_secret)
    }

    fn without_hidden<'a>(&self, text: Vec<Glyph<'a>>) -> Vec<Glyph<'a>> {
        let means = meanings(&text);
        let mut covered = vec![false; text.len()];
        for hidden in &self.hidden {
            let pieces = hidden.text.windows(hidden.window).collect::<HashSet<_>>();
            for (start, piece) in means.windows(hidden.window).enumerate() {
                if pieces.contains(piece) {
                    covered[start..start + hidden.window].fill(true);
                }
            }
        }
        let mut shown = Vec::with_capacity(text.len());
        for (at, glyph) in text.into_iter().enumerate() {
            if !covered[at] {
                shown.push(glyph);
            } else if at == 0 || !covered[at - 1] {
                shown.push(Glyph {
                    means: '*',
                    written: MASK,
                });
            }
        }
        shown
    }
}

fn meanings(text: &[Glyph<'_>]) -> Vec<char> {
    text.iter().map(|glyph| alike(glyph.means)).collect()
}

/// In forms a blank is written as a plus.
fn alike(c: char) -> char {
    if c == '+' { ' ' } else { c }
}

/// The digits of a number in E.164 that is long enough for the digit mask.
fn phone_digits(recipient: &str) -> Option<&str> {
    recipient.strip_prefix('+').filter(|digits| {
        digits.len() >= MIN_PHONE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// One line without control characters: NUL cannot be stored in PostgreSQL, and a line break would
/// forge a log line.
fn printable(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn mask_digits(text: &[Glyph<'_>]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let run = digit_run(&text[at..]);
        if run.digits.len() < MIN_PHONE_DIGITS {
            let shown = run.glyphs.max(1);
            masked.extend(text[at..at + shown].iter().flat_map(|glyph| glyph.written));
            at += shown;
            continue;
        }
        masked.extend(MASK);
        if run.digits.len() > WHOLLY_MASKED_DIGITS {
            masked.extend(&run.digits[run.digits.len() - 4..]);
        }
        at += run.glyphs;
    }
    masked
}

#[derive(Default)]
struct DigitRun {
    /// How many characters it spans, up to its last digit.
    glyphs: usize,
    digits: Vec<char>,
}

/// The run of digits at the start of the text, with what people write between the digits of a
/// phone number.
fn digit_run(text: &[Glyph<'_>]) -> DigitRun {
    let mut run = DigitRun::default();
    if !text
        .first()
        .is_some_and(|first| first.means.is_numeric() || "+(".contains(first.means))
    {
        return run;
    }
    let mut gap = 0;
    for (at, glyph) in text.iter().enumerate() {
        let c = glyph.means;
        if c.is_numeric() {
            run.digits.push(c);
            run.glyphs = at + 1;
            gap = 0;
        } else if " -./()+\u{2010}\u{2011}\u{2013}".contains(c) && gap < 3 {
            gap += 1;
        } else {
            break;
        }
    }
    run
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        None => text,
        Some(_) => text.chars().take(MAX_CHARS - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::provider::testing::message;

    #[test]
    fn phone_numbers_are_masked_in_every_spelling() {
        let table = [
            ("+15551234567 is invalid", "***4567 is invalid"),
            ("to: 010-1234-5678.", "to: ***5678."),
            ("to: 010 1234 5678", "to: ***5678"),
            ("(+82) 10-1234-5678!", "***5678!"),
            ("821012345678,821087654321", "***5678,***4321"),
            ("%2B821012345678", "***5678"),
            ("%2b82%2010%2d1234%2D5678!", "***5678!"),
            (r"\u0030\u0031\u0030\u002d1234-5678", "***5678"),
            ("&#43;82&nbsp;10&nbsp;1234&nbsp;5678", "***5678"),
            ("1234567", "***"),
            ("12345678", "***"),
            ("code 21211, 400", "code 21211, 400"),
            ("０１０１２３４５６７８", "***５６７８"),
            ("a - b (c)", "a - b (c)"),
        ];
        for (text, expected) in table {
            assert_eq!(safe_text(text), expected, "{text}");
        }
    }

    #[test]
    fn control_characters_become_one_space() {
        assert_eq!(safe_text("\0a\r\n\tb\u{7f}c\0"), "a b c");
    }

    #[test]
    fn a_long_text_is_cut_on_a_character() {
        let cut = safe_text(&"한".repeat(100_000));
        assert_eq!(cut.chars().count(), MAX_CHARS);
        assert!(cut.ends_with('…'));
        let whole = "한".repeat(MAX_CHARS);
        assert_eq!(safe_text(&whole), whole);
    }

    #[test]
    fn a_secret_is_hidden_even_when_it_was_cut() {
        let token = "fGt:APA91bHxyzQWERTYuiopLKJHgfdsa";
        let redactor = Redactor::default().with_secret(token);
        assert_eq!(redactor.text(&format!("bad {token}!")), "bad ***!");
        assert_eq!(redactor.text("bad fGt:APA91bHxyz..."), "bad ***...");
        assert_eq!(redactor.text("token ends LKJHgfdsa"), "token ends ***");
        assert_eq!(redactor.text("APA91b"), "APA91b");
    }

    #[test]
    fn a_text_is_hidden_however_it_is_spelled() {
        let mut message = message("+821012345678");
        Arc::make_mut(&mut message.payload).body = "안녕하세요 홍길동님\n결제 완료+1".to_owned();
        let redactor = Redactor::for_message(&message).with_secret("s3cr3t/with%41=");
        let table = [
            ("'안녕하세요 홍길동님\n결제 완료+1'", "'***'"),
            (
                r#"{"text":"안녕하세요 홍길동님\n결제 완료+1"}"#,
                r#"{"text":"***"}"#,
            ),
            (
                r"\uc548\ub155\ud558\uc138\uc694 \ud64d\uae38\ub3d9\ub2d8\n\uacb0\uc81c \uc644\ub8cc+1",
                "***",
            ),
            (
                "b=%EC%95%88%EB%85%95%ED%95%98%EC%84%B8%EC%9A%94+%ED%99%8D%EA%B8%B8%EB%8F%99%EB%8B%98\
                 %0A%EA%B2%B0%EC%A0%9C+%EC%99%84%EB%A3%8C%2B1&c",
                "b=***&c",
            ),
            ("s3cr3t/with%41=", "***"),
            ("key=s3cr3t%2Fwith%2541%3d.", "key=***."),
            ("s3cr3t&#47;with&#x25;41=", "***"),
        ];
        for (text, expected) in table {
            assert_eq!(redactor.text(text), expected, "{text}");
        }
    }

    #[test]
    fn a_short_number_is_hidden_without_its_countrys_code() {
        for (recipient, national) in [("+29051234", "51234"), ("+4712345", "12345")] {
            let redactor = Redactor::for_message(&message(recipient));
            assert_eq!(redactor.text(&format!("bad {recipient}!")), "bad +***!");
            assert_eq!(redactor.text(&format!("bad {national}!")), "bad ***!");
        }
    }

    #[test]
    fn every_recipient_is_hidden() {
        let table = [
            ("+821012345678", "bad ***5678!"),
            ("12345", "bad ***!"),
            ("+1234", "bad ***!"),
            ("token-1", "bad ***!"),
        ];
        for (recipient, expected) in table {
            let redactor = Redactor::for_message(&message(recipient));
            assert_eq!(redactor.text(&format!("bad {recipient}!")), expected);
        }
    }

    #[test]
    fn a_secret_at_the_end_of_what_is_scanned_does_not_show() {
        let token = format!("{}{}", "x".repeat(100), "y".repeat(4_000));
        let redactor = Redactor::default().with_secret(&token);
        let text = redactor.text(&format!("{} {token}", "z".repeat(400)));
        assert_eq!(text, format!("{} ***", "z".repeat(400)));
    }

    proptest! {
        #[test]
        fn any_text_is_safe(text in any::<String>(), secret in "[!-~]{8,40}") {
            let redactor = Redactor::default().with_secret(&secret);
            let safe = redactor.text(&format!("{text}{secret}{text}"));
            prop_assert!(safe.chars().count() <= MAX_CHARS);
            prop_assert!(!safe.contains(char::is_control));
            prop_assert!(!safe.contains(&secret));
        }
    }
}
