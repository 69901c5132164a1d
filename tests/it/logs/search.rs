//! Looks for secrets in a text, however a program may have written them there.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;

/// What was looked for, and the forms in which it was.
pub struct Search(Vec<Vec<String>>);

impl Search {
    /// For these, none of which may be so short that it is found by chance.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let secrets = secrets.into_iter().map(|secret| {
            let secret = secret.as_ref();
            assert!(secret.chars().count() >= 3, "{secret:?} is found anywhere");
            spellings(secret)
        });
        Self(secrets.collect())
    }

    /// Fails when any of them is in the text, with what stands before it.
    pub fn assert_not_in(&self, text: &str, place: &str) {
        let lower = text.to_lowercase();
        for spellings in &self.0 {
            for spelling in spellings {
                let found = [(text, spelling.clone()), (&lower, spelling.to_lowercase())];
                for (text, spelling) in found {
                    if let Some((before, _)) = text.split_once(&spelling) {
                        let from = before.char_indices().rev().nth(300);
                        let around = &before[from.map_or(0, |(at, _)| at)..];
                        panic!("{place} says {spelling} after {around}");
                    }
                }
            }
        }
    }
}

/// As it is, as lists of numbers, as hex, percent-encoded, as escapes of JSON, in Base64.
fn spellings(secret: &str) -> Vec<String> {
    let numbers: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
    let each = |start: &str| {
        secret.bytes().fold(String::new(), |mut text, byte| {
            write!(text, "{start}{byte:02x}").unwrap();
            text
        })
    };
    let mut found = vec![
        secret.to_owned(),
        numbers.join(", "),
        numbers.join(","),
        numbers.join(" "),
        each(""),
        each("\\x"),
        each("%"),
        percent(secret),
        json(secret),
    ];
    // Short ones have too few characters in common with what they are a part of.
    if secret.len() >= 8 {
        found.extend((0..3).map(|offset| base64_within(secret, offset)));
    }
    found.dedup();
    found
}

/// Everything but letters and digits as `%XX`.
pub fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut written, byte| {
        if byte.is_ascii_alphanumeric() {
            written.push(char::from(byte));
        } else {
            write!(written, "%{byte:02X}").unwrap();
        }
        written
    })
}

/// Everything but letters and digits as `\uXXXX`.
pub fn json(text: &str) -> String {
    text.encode_utf16()
        .fold(String::new(), |mut written, unit| {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii_alphanumeric() => written.push(char::from(byte)),
                _ => write!(written, "\\u{unit:04x}").unwrap(),
            }
            written
        })
}

/// The characters that are the same whatever stands before and after it in what was encoded.
fn base64_within(secret: &str, offset: usize) -> String {
    let bytes = [&vec![0; offset][..], secret.as_bytes()].concat();
    let encoded = BASE64_STANDARD_NO_PAD.encode(&bytes);
    let (first, last) = ((8 * offset).div_ceil(6), 8 * bytes.len() / 6);
    encoded[first..last].to_owned()
}

#[test]
fn every_spelling_is_found() {
    let secret = "user:Pässw0rd+1";
    let search = Search::new([secret]);
    let base64 = |text: String| BASE64_STANDARD_NO_PAD.encode(text);
    let texts = [
        secret.to_owned(),
        format!("{:?}", secret.as_bytes()),
        format!("{:?}", secret.as_bytes()).replace(' ', ""),
        "757365723a50c3a4737377307264".to_owned() + "2B31",
        "user%3APass".replace("Pass", "P%c3%a4ssw0rd%2B1"),
        r"user\u003aP\u00e4ssw0rd\u002b1".to_owned(),
        base64(secret.to_owned()),
        base64(format!("a{secret}b")),
        base64(format!("ab{secret}")),
        base64(format!("abc{secret}a")),
    ];
    for text in texts {
        let found = std::panic::catch_unwind(|| search.assert_not_in(&format!("[{text}]"), "here"));
        assert!(found.is_err(), "{text}");
    }
    search.assert_not_in("user:P***+1", "here");
}
