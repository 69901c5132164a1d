//! The rules of single fields.

use super::MAX_AMOUNT;
use super::faults::{Faults, Pointer};
use super::json::{Kind, Object, kind, refuse_type};
use crate::payment::{Currency, Locale};

/// Longest `order_id`, in characters.
const MAX_ORDER_ID_CHARS: usize = 128;
/// Longest `description`, in characters.
const MAX_DESCRIPTION_CHARS: usize = 500;
/// Longest `locale`, in characters; RFC 5646 (4.4.1) asks for room for 35.
const MAX_LOCALE_CHARS: usize = 64;
/// Longest part of a value that an error repeats.
const MAX_QUOTED_CHARS: usize = 24;

/// Which control characters a text may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// None: references and titles.
    One,
    /// Line breaks and tabs: text that people wrote.
    Many,
}

/// `order_id`: required, 1..=128 characters on one line.
pub(super) fn order_id(object: &mut Object<'_>, faults: &mut Faults) -> Option<String> {
    let text = object.required_string("order_id", faults)?;
    let at = object.at("order_id");
    if text.is_empty() {
        faults.rule(&at, "must not be empty");
        return None;
    }
    check_text(&text, MAX_ORDER_ID_CHARS, Lines::One, &at, faults).then_some(text)
}

/// `amount`: required, an integer literal in 1..=[`MAX_AMOUNT`].
pub(super) fn amount(object: &mut Object<'_>, faults: &mut Faults) -> Option<i64> {
    let raw = object.take_required("amount", faults)?;
    let at = object.at("amount");
    if kind(raw) != Kind::Number {
        refuse_type(raw, &at, Kind::Number, faults);
        return None;
    }
    let literal = raw.get();
    if literal.contains(['.', 'e', 'E']) {
        faults.malformed(
            &at,
            format!(
                "{} is not an integer literal: give the amount in the currency's minor unit, \
                 without a point or an exponent, such as 15000",
                quoted(literal)
            ),
        );
        return None;
    }
    let amount = literal
        .parse()
        .ok()
        .filter(|amount| (1..=MAX_AMOUNT).contains(amount));
    if amount.is_none() {
        faults.rule(
            &at,
            format!("{} is not between 1 and {MAX_AMOUNT}", quoted(literal)),
        );
    }
    amount
}

/// `currency`: required, the code of a currency in use.
pub(super) fn currency(object: &mut Object<'_>, faults: &mut Faults) -> Option<Currency> {
    let code = object.required_string("currency", faults)?;
    let currency = Currency::parse(&code);
    if let Err(error) = &currency {
        faults.rule(
            &object.at("currency"),
            format!("{} is {error}", quoted(&code)),
        );
    }
    currency.ok()
}

/// `description`: optional, at most 500 characters.
pub(super) fn description(object: &mut Object<'_>, faults: &mut Faults) -> Option<Option<String>> {
    let text = object.optional_string("description", faults)?;
    let at = object.at("description");
    let valid = text
        .as_ref()
        .is_none_or(|text| check_text(text, MAX_DESCRIPTION_CHARS, Lines::Many, &at, faults));
    valid.then_some(text)
}

/// `locale`: optional, a BCP 47 tag.
pub(super) fn locale(object: &mut Object<'_>, faults: &mut Faults) -> Option<Option<String>> {
    let tag = object.optional_string("locale", faults)?;
    let valid = tag.as_deref().is_none_or(is_language_tag);
    if !valid {
        faults.rule(
            &object.at("locale"),
            "is not a BCP 47 language tag, such as ko, ko-KR or en",
        );
    }
    valid.then_some(tag)
}

/// The language that texts are written in for a tag.
pub(super) fn text_locale(tag: Option<&str>, default: Locale) -> Locale {
    let language = tag.and_then(|tag| tag.split('-').next()).unwrap_or("");
    [Locale::Ko, Locale::En]
        .into_iter()
        .find(|locale| locale.as_str().eq_ignore_ascii_case(language))
        .unwrap_or(default)
}

/// The shape of a tag (RFC 5646, 2.1): a language of two to eight letters, or the private `x` and
/// grandfathered `i`, then subtags of one to eight letters or digits. A one-character subtag
/// announces another.
fn is_language_tag(tag: &str) -> bool {
    let subtags: Vec<&str> = tag.split('-').collect();
    let Some((language, rest)) = subtags.split_first() else {
        return false;
    };
    let announces = |subtag: &str| subtag.len() == 1;
    let language_fits = language.bytes().all(|byte| byte.is_ascii_alphabetic())
        && ((2..=8).contains(&language.len())
            || (["x", "i"].contains(&language.to_ascii_lowercase().as_str()) && !rest.is_empty()));
    let rest_fits = rest.iter().all(|subtag| {
        (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    tag.len() <= MAX_LOCALE_CHARS
        && language_fits
        && rest_fits
        && rest.last().is_none_or(|last| {
            !announces(last)
                || rest.iter().any(|subtag| subtag.eq_ignore_ascii_case("x"))
                || language.eq_ignore_ascii_case("x")
        })
}

/// Checks a text's length and its control characters; notes what is wrong.
pub(super) fn check_text(
    text: &str,
    max_chars: usize,
    lines: Lines,
    at: &Pointer,
    faults: &mut Faults,
) -> bool {
    let length = text.chars().count();
    if length > max_chars {
        faults.rule(
            at,
            format!("has {length} characters; at most {max_chars} are allowed"),
        );
        return false;
    }
    let allowed: &[char] = match lines {
        Lines::One => &[],
        Lines::Many => &['\n', '\r', '\t'],
    };
    match text
        .chars()
        .find(|character| character.is_control() && !allowed.contains(character))
    {
        Some(character) => {
            faults.rule(
                at,
                format!(
                    "has the control character U+{:04X}, which is not allowed here",
                    u32::from(character)
                ),
            );
            false
        }
        None => true,
    }
}

/// Line breaks of any system as `\n`, so that a text counts the same wherever it was written.
pub(super) fn unify_newlines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The beginning of a value as an error may repeat it: short and without control characters.
pub(super) fn quoted(value: &str) -> String {
    let mut shown: String = value.chars().take(MAX_QUOTED_CHARS).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
