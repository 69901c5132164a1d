//! `Retry-After` (RFC 9110, 10.2.3): seconds, or a date in any of the three HTTP forms.

use std::time::{Duration, SystemTime};

/// The longest wait that is believed. A larger number is a mistake of the other side or an
/// overflow waiting to happen; the engine caps further.
pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the header's value. A date that has passed is no wait at all, anything longer than
/// [`MAX`] is [`MAX`], and what is neither seconds nor a date (`-3`, `1.5`, an empty value) is
/// `None`, so that the caller's own backoff applies.
pub fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only digits: what does not parse is too large for the type, hence for us.
        let wait = value.parse().map_or(MAX, Duration::from_secs);
        return Some(wait.min(MAX));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default().min(MAX))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> SystemTime {
        httpdate::parse_http_date("Mon, 30 Nov 2026 12:00:00 GMT").unwrap()
    }

    #[test]
    fn reads_seconds_dates_and_junk() {
        let seconds = |n| Some(Duration::from_secs(n));
        let table = [
            ("0", seconds(0)),
            ("2", seconds(2)),
            (" 120\t", seconds(120)),
            ("000000000000000000000007", seconds(7)),
            ("86401", Some(MAX)),
            ("9223372037", Some(MAX)),
            ("18446744073709551615", Some(MAX)),
            ("99999999999999999999", Some(MAX)),
            ("", None),
            (" ", None),
            ("-3", None),
            ("+3", None),
            ("1.5", None),
            ("1e3", None),
            ("٣", None),
            ("soon", None),
            ("Mon, 30 Nov 2026 12:00:30 GMT", seconds(30)),
            ("Monday, 30-Nov-26 12:00:30 GMT", seconds(30)),
            ("Mon Nov 30 12:00:30 2026", seconds(30)),
            ("Mon, 30 Nov 2026 11:59:59 GMT", seconds(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(MAX)),
            ("Mon, 30 Nov 2026 12:00:30 UTC", None),
        ];
        for (value, expected) in table {
            assert_eq!(parse(value, now()), expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_never_exceeds_the_maximum(value in ".*") {
            prop_assert!(parse(&value, now()).is_none_or(|wait| wait <= MAX));
        }

        #[test]
        fn any_number_of_digits_is_a_wait(value in "[0-9]{1,40}") {
            prop_assert!(parse(&value, now()).is_some());
        }
    }
}
