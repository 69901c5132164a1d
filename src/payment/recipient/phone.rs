//! Phone numbers: from any common spelling to E.164, and only those that can receive SMS.
//!
//! The text is reduced to an optional `+` and ASCII digits before `phonenumber` sees it, so its
//! tolerance of letters, extensions and several numbers in one text never applies. Korean numbers
//! are judged by our own rules: `phonenumber` calls landlines, 15xx numbers and `010 1234 567`
//! valid, too.

use std::fmt;

use phonenumber::country::Id;
use phonenumber::metadata::{DATABASE, Descriptor, Metadata};
use unicode_normalization::UnicodeNormalization;

use super::{RecipientError, mask};

/// Most digits a dialled number has: E.164's fifteen, `00` and a trunk prefix, with room to spare.
const MAX_DIALLED_DIGITS: usize = 20;
/// E.164 allows fifteen digits, the country code included.
const MAX_E164_DIGITS: usize = 15;
/// Country calling code of the Republic of Korea.
const KOREA: &str = "82";

/// The country in which a number without a country code is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Region(Id);

/// A region code that the numbering plan does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown region {0:?}: give an ISO 3166 code of two capital letters, such as KR")]
pub struct UnknownRegion(pub String);

impl Region {
    /// The Republic of Korea, the default.
    pub const KR: Self = Self(Id::KR);

    /// Takes an ISO 3166-1 alpha-2 code in capitals whose numbering plan is known.
    ///
    /// # Errors
    /// [`UnknownRegion`] with what was given.
    pub fn parse(code: &str) -> Result<Self, UnknownRegion> {
        code.parse()
            .ok()
            .filter(|id: &Id| DATABASE.by_id(id.as_ref()).is_some())
            .map(Self)
            .ok_or_else(|| UnknownRegion(code.to_owned()))
    }

    /// The two-letter code.
    pub fn code(&self) -> &str {
        self.0.as_ref()
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A number stripped of its spelling.
struct Dialled {
    /// The digits start with a country code.
    international: bool,
    /// ASCII digits only, at least one.
    digits: String,
}

/// E.164 of a number that can receive SMS.
pub(super) fn normalise(text: &str, region: Region) -> Result<String, RecipientError> {
    let dialled = strip_spelling(text)?;
    let country = dialled.digits.strip_prefix(KOREA);
    let e164 = match (dialled.international, country) {
        (true, Some(national)) => korean(national),
        (false, country) if region == Region::KR => {
            korean(&dialled.digits).or_else(|| country.and_then(korean))
        }
        _ => foreign(&dialled, region),
    };
    e164.ok_or_else(|| RecipientError::NotMobile(mask(text)))
}

/// Removes separators, folds full-width characters and understands the prefix `00`.
fn strip_spelling(text: &str) -> Result<Dialled, RecipientError> {
    let mut international = false;
    let mut digits = String::new();
    for character in text.nfkc() {
        match character {
            '0'..='9' => digits.push(character),
            '+' if !international && digits.is_empty() => international = true,
            _ if is_separator(character) => {}
            _ => return Err(RecipientError::NotANumber(mask(text))),
        }
    }
    if digits.is_empty() {
        return Err(if text.trim().is_empty() {
            RecipientError::Empty
        } else {
            RecipientError::NotANumber(mask(text))
        });
    }
    if digits.len() > MAX_DIALLED_DIGITS {
        return Err(RecipientError::NotANumber(mask(text)));
    }
    if !international && let Some(rest) = digits.strip_prefix("00") {
        return Ok(Dialled {
            international: true,
            digits: rest.to_owned(),
        });
    }
    Ok(Dialled {
        international,
        digits,
    })
}

/// What people put between the digits, after NFKC (which has made no-break and ideographic spaces
/// plain, and full-width punctuation ASCII).
fn is_separator(character: char) -> bool {
    matches!(
        character,
        ' ' | '-' | '.' | '(' | ')' | '[' | ']' | '/'
        // Hyphens, dashes and the minus sign that word processors put in.
        | '\u{2010}'..='\u{2015}' | '\u{2212}'
        // Invisible marks that come along when a number is copied from a contact or a chat.
        | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

/// A Korean mobile number, with or without its trunk zero: `01[016789]` and seven or eight digits
/// that do not start with zero, exactly eight after 010.
fn korean(national: &str) -> Option<String> {
    let number = national.strip_prefix('0').unwrap_or(national);
    let (prefix, subscriber) = number.split_at_checked(2)?;
    let lengths = match prefix {
        "10" => 8..=8,
        "11" | "16" | "17" | "18" | "19" => 7..=8,
        _ => return None,
    };
    (lengths.contains(&subscriber.len()) && !subscriber.starts_with('0'))
        .then(|| format!("+{KOREA}{number}"))
}

/// Every other country's number, by libphonenumber's numbering plans.
fn foreign(dialled: &Dialled, region: Region) -> Option<String> {
    let abroad = if dialled.international {
        Some(dialled.digits.as_str())
    } else {
        after_exit_code(&dialled.digits, region)
    };
    let number = match abroad {
        Some(digits) => phonenumber::parse(None, format!("+{digits}")),
        None => phonenumber::parse(Some(region.0), &dialled.digits),
    }
    .ok()?;
    let code = number.code().value();
    let national = number.national().to_string();
    if code.to_string() == KOREA {
        return korean(&national);
    }
    let plans = DATABASE.by_code(&code)?;
    let reachable = plans.iter().any(|plan| receives_sms(plan, &national));
    let e164 = format!("+{code}{national}");
    (reachable && e164.len() <= MAX_E164_DIGITS + 1).then_some(e164)
}

/// What follows the region's own prefix for calls abroad (011 in the US), when there is one.
/// `phonenumber` finds it too, but then strips the trunk prefix of the wrong country.
fn after_exit_code(digits: &str, region: Region) -> Option<&str> {
    let plan = DATABASE.by_id(region.code())?;
    let found = plan.international_prefix()?.find(digits)?;
    let rest = digits.get(found.end()..)?;
    (found.start() == 0 && !rest.starts_with('0')).then_some(rest)
}

/// Whether a national number (leading zeros included) is a mobile one in this plan, and none of
/// the kinds that no SMS reaches. Where mobile and fixed numbers look alike (+1) it may be either.
fn receives_sms(plan: &Metadata, national: &str) -> bool {
    let kinds = plan.descriptors();
    let fits = |kind: Option<&Descriptor>| kind.is_some_and(|kind| matches_whole(kind, national));
    let unreachable = [
        kinds.premium_rate(),
        kinds.toll_free(),
        kinds.shared_cost(),
        kinds.voip(),
        kinds.personal_number(),
        kinds.pager(),
        kinds.uan(),
        kinds.voicemail(),
    ];
    fits(Some(kinds.general())) && fits(kinds.mobile()) && !unreachable.into_iter().any(fits)
}

/// `Descriptor::is_match` only looks at the beginning of the number.
fn matches_whole(kind: &Descriptor, national: &str) -> bool {
    kind.is_match(national)
        && kind
            .national_number()
            .find(national)
            .is_some_and(|found| found.end() == national.len())
}

#[cfg(test)]
mod tests;
