//! Masking: enough of a recipient to recognise it, not enough to use it.

/// Always this many, so that the mask does not tell the length.
const STARS: &str = "*****";
/// How many characters at the end stay readable.
const SHOWN: usize = 4;
/// Recipients of up to this many characters are masked whole.
const MASKED_WHOLE: usize = 8;
/// The country calling code stays only while at least this many characters remain hidden.
const MIN_HIDDEN: usize = 3;

/// ITU-T E.164 country calling codes of one digit.
const ONE_DIGIT_CODES: [&str; 2] = ["1", "7"];
/// ITU-T E.164 country calling codes of two digits; all others have three.
const TWO_DIGIT_CODES: [&str; 44] = [
    "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47",
    "48", "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65",
    "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98",
];

/// Masks a recipient for answers, pages and logs: the last four characters stay, and the country
/// calling code of an E.164 number; eight characters or fewer are masked whole.
///
/// `+821012345678` becomes `+82*****5678`, a token `*****abcd`.
pub fn mask(recipient: &str) -> String {
    let length = recipient.chars().count();
    if length <= MASKED_WHOLE {
        return STARS.to_owned();
    }
    let code = calling_code(recipient);
    let head = if length >= code.len() + MIN_HIDDEN + SHOWN {
        code
    } else {
        ""
    };
    let tail: String = recipient.chars().skip(length - SHOWN).collect();
    format!("{head}{STARS}{tail}")
}

/// `+` and the calling code of an E.164 number, or nothing of anything else.
fn calling_code(recipient: &str) -> &str {
    let Some(digits) = recipient.strip_prefix('+') else {
        return "";
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return "";
    }
    let starts_with = |codes: &[&str]| codes.iter().any(|code| digits.starts_with(code));
    let length = if starts_with(&ONE_DIGIT_CODES) {
        1
    } else if starts_with(&TWO_DIGIT_CODES) {
        2
    } else {
        3
    };
    recipient.get(..=length).unwrap_or("")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use phonenumber::metadata::DATABASE;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shows_the_country_and_the_last_four() {
        let cases = [
            ("+821012345678", "+82*****5678"),
            ("+14155550123", "+1*****0123"),
            ("+79161234567", "+7*****4567"),
            ("+35840123456", "+358*****3456"),
            ("+3546123456", "+354*****3456"),
            // Too short to show the country and hide anything.
            ("+29051234", "*****1234"),
            ("+1234567", "*****"),
            ("fZ3:APA91b_abcd", "*****abcd"),
            ("02-123-4567", "*****4567"),
            ("+82 10 1234 5678", "*****5678"),
            ("+", "*****"),
            ("", "*****"),
            ("12345678", "*****"),
            ("123456789", "*****6789"),
            // Characters are counted, not bytes.
            ("가나다라마바사아", "*****"),
            ("가나다라마바사아자", "*****바사아자"),
            ("+８２１０１２３４５６７８", "*****５６７８"),
        ];
        for (given, expected) in cases {
            assert_eq!(mask(given), expected, "{given}");
        }
    }

    #[test]
    fn calling_codes_agree_with_the_numbering_plan() {
        for meta in DATABASE.iter() {
            let code = format!("+{}", meta.country_code());
            assert_eq!(
                calling_code(&format!("{code}000000000")),
                code,
                "{}",
                meta.id()
            );
        }
    }

    proptest! {
        #[test]
        fn never_shows_more_than_it_may(text in "\\PC{0,40}") {
            let length = text.chars().count();
            let masked = mask(&text);
            let (head, tail) = masked.split_once(STARS).unwrap();
            prop_assert!(head.len() <= 4 && text.starts_with(head));
            if length <= MASKED_WHOLE {
                prop_assert_eq!(masked, STARS);
            } else {
                prop_assert_eq!(tail.chars().count(), SHOWN);
                prop_assert!(length - SHOWN - head.chars().count() >= MIN_HIDDEN);
            }
        }

        #[test]
        fn never_shows_the_middle_of_a_number(number in "\\+[1-9][0-9]{8,14}") {
            let masked = mask(&number);
            let shown = masked.chars().filter(char::is_ascii_digit).count();
            prop_assert!(shown <= 3 + SHOWN);
            prop_assert!(masked.ends_with(&number[number.len() - SHOWN..]));
        }
    }
}
