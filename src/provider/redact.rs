//! Makes a provider's words safe to store, to log and to show.
//!
//! Providers echo what they were sent: "+15551234567 is invalid", a whole registration token, the
//! text itself. An [`Answer`] is therefore made only through a [`Redactor`].

use std::collections::HashSet;

use super::{Answer, Message};

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

/// Up to this length nothing of a number is shown; of longer ones the last four digits are.
const WHOLLY_MASKED_DIGITS: usize = 8;

const MASK: &str = "***";

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
        // A phone number is left to the digit mask, which knows its other spellings too.
        if !is_phone_number(recipient) {
            redactor.hide(recipient, SECRET_WINDOW);
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

    fn hide(&mut self, text: &str, window: usize) {
        let text = printable(text).chars().collect::<Vec<_>>();
        if !text.is_empty() {
            let window = window.min(text.len());
            self.hidden.push(Hidden { text, window });
        }
    }

    /// The text made safe: see [`safe_text`].
    pub fn text(&self, text: &str) -> String {
        let text = printable(text).chars().take(SCANNED_CHARS).collect();
        cut(mask_digits(&self.without_hidden(text)))
    }

    /// An answer made safe to keep.
    pub fn answer(&self, http_status: Option<u16>, text: &str) -> Answer {
        Answer {
            http_status,
            text: self.text(text),
        }
    }

    fn without_hidden(&self, text: Vec<char>) -> Vec<char> {
        let mut covered = vec![false; text.len()];
        for hidden in &self.hidden {
            let pieces = hidden.text.windows(hidden.window).collect::<HashSet<_>>();
            for (start, piece) in text.windows(hidden.window).enumerate() {
                if pieces.contains(piece) {
                    covered[start..start + hidden.window].fill(true);
                }
            }
        }
        let mut shown = Vec::with_capacity(text.len());
        for (at, &c) in text.iter().enumerate() {
            if !covered[at] {
                shown.push(c);
            } else if at == 0 || !covered[at - 1] {
                shown.extend(MASK.chars());
            }
        }
        shown
    }
}

/// E.164, and long enough for the digit mask.
fn is_phone_number(recipient: &str) -> bool {
    recipient.strip_prefix('+').is_some_and(|digits| {
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

fn mask_digits(text: &[char]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let run = digit_run(&text[at..]);
        if run.digits.len() < MIN_PHONE_DIGITS {
            let shown = run.chars.max(1);
            masked.extend(&text[at..at + shown]);
            at += shown;
            continue;
        }
        masked.push_str(MASK);
        if run.digits.len() > WHOLLY_MASKED_DIGITS {
            masked.extend(&run.digits[run.digits.len() - 4..]);
        }
        at += run.chars;
    }
    masked
}

#[derive(Default)]
struct DigitRun {
    /// How many characters it spans, up to its last digit.
    chars: usize,
    digits: Vec<char>,
}

/// The run of digits at the start of the text, with what people write between the digits of a
/// phone number.
fn digit_run(text: &[char]) -> DigitRun {
    let mut run = DigitRun::default();
    if !text
        .first()
        .is_some_and(|&c| c.is_numeric() || "+(".contains(c))
    {
        return run;
    }
    let mut gap = 0;
    for (at, &c) in text.iter().enumerate() {
        if c.is_numeric() {
            run.digits.push(c);
            run.chars = at + 1;
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
            ("%2B821012345678", "%2B***5678"),
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
