//! The `Idempotency-Key` header.
//!
//! The draft of the IETF makes it an RFC 8941 string, in double quotes; most clients send it bare.
//! Both spellings name the same key.

use actix_web::http::header::HeaderMap;

use super::problem::Problem;

/// Name of the header.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Longest key, in characters.
pub const MAX_KEY_CHARS: usize = 255;

/// The request's idempotency key, if it has one: 1..=255 printable ASCII characters, unquoted.
///
/// # Errors
/// [`Problem::BadHeader`] when it is empty, too long, half-quoted, has other characters or was
/// sent twice.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(refused("is sent more than once"));
    }
    let text = value
        .to_str()
        .ok()
        .filter(|text| !text.contains('\t'))
        .ok_or_else(|| refused("may have printable ASCII characters only"))?
        .trim_matches(' ');
    let key = match text.strip_prefix('"') {
        Some(rest) => unquote(rest)?,
        None if text.ends_with('"') => return Err(half_quoted()),
        None => text.to_owned(),
    };
    match key.len() {
        0 => Err(refused("is empty: leave it out, or give a key")),
        1..=MAX_KEY_CHARS => Ok(Some(key)),
        _ => Err(refused("is longer than 255 characters")),
    }
}

/// The rest of an RFC 8941 string after its opening quote. Nothing may follow the closing one.
fn unquote(rest: &str) -> Result<String, Problem> {
    let mut key = String::with_capacity(rest.len());
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' if characters.as_str().is_empty() => return Ok(key),
            '"' => return Err(refused("has something after its closing quote")),
            '\\' => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(refused("has a backslash that escapes neither \" nor \\")),
            },
            other => key.push(other),
        }
    }
    Err(half_quoted())
}

fn half_quoted() -> Problem {
    refused("has only one of its two quotes")
}

fn refused(detail: &'static str) -> Problem {
    Problem::BadHeader {
        name: IDEMPOTENCY_KEY,
        detail: detail.into(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn key_of(values: &[&[u8]]) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                HeaderName::from_static("idempotency-key"),
                HeaderValue::from_bytes(value).unwrap(),
            );
        }
        idempotency_key(&headers)
    }

    #[test]
    fn bare_and_quoted_name_the_same_key() {
        let longest = "k".repeat(MAX_KEY_CHARS);
        let quoted_longest = format!("\"{longest}\"");
        for (value, key) in [
            ("order-1", "order-1"),
            ("\"order-1\"", "order-1"),
            ("  order-1  ", "order-1"),
            ("a b", "a b"),
            ("a,b;c=\"d\" e", "a,b;c=\"d\" e"),
            ("a\\b", "a\\b"),
            ("\"a\\\\b\"", "a\\b"),
            ("\"a\\\"b\"", "a\"b"),
            ("\" \"", " "),
            (longest.as_str(), longest.as_str()),
            (quoted_longest.as_str(), longest.as_str()),
        ] {
            assert_eq!(
                key_of(&[value.as_bytes()]),
                Ok(Some(key.to_owned())),
                "{value}"
            );
        }
        assert_eq!(key_of(&[]), Ok(None));
    }

    #[test]
    fn anything_else_is_refused_with_the_name_of_the_header() {
        let too_long = "k".repeat(MAX_KEY_CHARS + 1);
        let too_long_quoted = format!("\"{too_long}\"");
        let refused: [&[&[u8]]; 15] = [
            &[b""],
            &[b"   "],
            &[b"\"\""],
            &[b"\""],
            &[b"\"order-1"],
            &[b"order-1\""],
            &[b"\"a\" b"],
            &[b"\"a\", \"b\""],
            &[b"\"a\\b\""],
            &[b"\"a\\"],
            &["키".as_bytes()],
            &[b"a\tb"],
            &[too_long.as_bytes()],
            &[too_long_quoted.as_bytes()],
            &[b"order-1", b"order-1"],
        ];
        for values in refused {
            match key_of(values) {
                Err(Problem::BadHeader { name, .. }) => assert_eq!(name, IDEMPOTENCY_KEY),
                other => panic!("{values:?} gave {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn a_key_survives_quoting(key in "[ -~]{1,255}") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(key_of(&[quoted.as_bytes()]), Ok(Some(key)));
        }
    }
}
