#![expect(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;

use super::*;

fn kr(text: &str) -> Result<String, RecipientError> {
    normalise(text, Region::KR)
}

#[test]
fn every_common_spelling_is_the_same_number() {
    let spellings = [
        "01012345678",
        "010-1234-5678",
        "010 1234 5678",
        "010.1234.5678",
        "(010) 1234-5678",
        "[010]1234/5678",
        "010–1234—5678",
        "０１０－１２３４－５６７８",
        "010\u{a0}1234\u{3000}5678",
        "\u{202a}010-1234-5678\u{202c}",
        "  010-1234-5678  ",
        "1012345678",
        "+821012345678",
        "+82 10-1234-5678",
        "＋８２ １０ １２３４ ５６７８",
        "+8201012345678",
        "+82 (0)10-1234-5678",
        "821012345678",
        "8201012345678",
        "82-10-1234-5678",
        "00821012345678",
        "0082 (0)10 1234 5678",
        "0082-010-1234-5678",
    ];
    for text in spellings {
        assert_eq!(kr(text).as_deref(), Ok("+821012345678"), "{text:?}");
    }
}

#[test]
fn older_korean_prefixes_have_seven_or_eight_digits() {
    for (text, expected) in [
        ("011-234-5678", "+82112345678"),
        ("016-1234-5678", "+821612345678"),
        ("017 234 5678", "+82172345678"),
        ("018-234-5678", "+82182345678"),
        ("+82 019-234-5678", "+82192345678"),
    ] {
        assert_eq!(kr(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn korean_numbers_that_get_no_sms_are_refused() {
    let refused = [
        // Landlines, internet telephony, service numbers, short codes.
        "02-312-3456",
        "02-1234-5678",
        "031-123-4567",
        "+82 2 312 3456",
        "0082-2-1234-5678",
        "070-1234-5678",
        "0502-123-4567",
        "060-700-1234",
        "080-123-4567",
        "1588-1234",
        "1577-0000",
        "1600-1234",
        "1666-1234",
        "1800-1234",
        "15881234",
        "+8215881234",
        "112",
        "119",
        "114",
        // Too short, too long, zero-led subscriber part, unassigned prefixes.
        "010 1234 567",
        "010-1234-56789",
        "011-23-4567",
        "010-0123-4567",
        "+82 10 0123 4567",
        "011-012-3456",
        "012-1234-5678",
        "013-1234-5678",
        "014-1234-5678",
        "015-1234-5678",
        "+82 00 10 1234 5678",
        "+82",
        "82",
        "0",
        "010",
    ];
    for text in refused {
        assert!(
            matches!(kr(text), Err(RecipientError::NotMobile(_))),
            "{text}: {:?}",
            kr(text)
        );
    }
}

#[test]
fn anything_but_a_number_is_refused() {
    let refused = [
        "hello",
        "010-1234-567a",
        "010-1234-5678 ext. 5",
        "010-1234-5678x5",
        "010-1234-5678;ext=5",
        "010-1234-5678#5",
        "tel:+821012345678",
        "++821012345678",
        "+82+1012345678",
        "82+1012345678",
        "010-1234-5678, 010-1234-5679",
        "+",
        "-",
        "()",
        "010\n12345678",
        "010\u{0}12345678",
        "010\t1234\t5678",
        "٠١٠١٢٣٤٥٦٧٨",
        "½01012345678",
        "+821012345678901234567890",
    ];
    for text in refused {
        assert!(
            matches!(kr(text), Err(RecipientError::NotANumber(_))),
            "{text:?}"
        );
    }
    for text in ["", " ", "\u{3000}"] {
        assert_eq!(kr(text), Err(RecipientError::Empty), "{text:?}");
    }
}

#[test]
fn numbers_from_abroad_follow_their_own_plan() {
    for (text, expected) in [
        ("+330631966543", "+33631966543"),
        ("+33 6 31 96 65 43", "+33631966543"),
        ("+44 (0)7912 345678", "+447912345678"),
        ("0044 7912 345678", "+447912345678"),
        ("+1 415-555-2671", "+14155552671"),
        ("+39 312 345 6789", "+393123456789"),
        ("+225 07 08 09 10 11", "+2250708091011"),
        ("+81 90-1234-5678", "+819012345678"),
        ("+54 9 11 2345 6789", "+5491123456789"),
    ] {
        assert_eq!(kr(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "+39 0332 123456", // a landline whose digits after the zero look mobile
        "+33 1 42 68 53 00",
        "+44 20 7946 0018",
        "+44 76 1234 5678",
        "+49 30 123456",
        "+1 800 723 3456",
        "+1 900 234 5678",
        "+1 345 949 2311",
        "+61 1900 123456",
        "+800 1234 0000",
        "+979 123 456 789",
        "+999 1234 5678",
        "+0 1234 5678",
        "+1 415 555",
        "+44 7912 3456789",
    ] {
        assert!(
            matches!(kr(text), Err(RecipientError::NotMobile(_))),
            "{text}: {:?}",
            kr(text)
        );
    }
}

#[test]
fn a_number_without_country_code_is_read_in_the_region() {
    let read = |text, region| normalise(text, Region::parse(region).unwrap());
    for (text, region, expected) in [
        ("(415) 555-2671", "US", "+14155552671"),
        ("1 415 555 2671", "US", "+14155552671"),
        ("06 31 96 65 43", "FR", "+33631966543"),
        ("07912 345678", "GB", "+447912345678"),
        ("090-1234-5678", "JP", "+819012345678"),
        ("+82 10 1234 5678", "US", "+821012345678"),
        ("011 82 10 1234 5678", "US", "+821012345678"),
        ("00 82 010 1234 5678", "DE", "+821012345678"),
    ] {
        assert_eq!(
            read(text, region).as_deref(),
            Ok(expected),
            "{text} in {region}"
        );
    }
    assert!(read("010-1234-5678", "US").is_err());
    assert!(read("011 82 2 312 3456", "US").is_err());
}

#[test]
fn every_plan_takes_its_own_example_of_a_mobile_number() {
    for plan in DATABASE.iter().filter(|plan| plan.id() != "001") {
        let Some(example) = plan.descriptors().mobile().and_then(Descriptor::example) else {
            continue;
        };
        let text = format!("+{}{example}", plan.country_code());
        assert_eq!(kr(&text).as_deref(), Ok(text.as_str()), "{}", plan.id());
    }
}

#[test]
fn no_plan_takes_its_example_of_a_number_without_sms() {
    for plan in DATABASE.iter() {
        let kinds = plan.descriptors();
        let examples = [
            kinds.toll_free(),
            kinds.premium_rate(),
            kinds.voip(),
            kinds.uan(),
        ];
        for example in examples
            .into_iter()
            .flatten()
            .filter_map(Descriptor::example)
        {
            let text = format!("+{}{example}", plan.country_code());
            assert!(kr(&text).is_err(), "{} {text}", plan.id());
        }
    }
}

#[test]
fn regions_are_codes_of_known_plans() {
    for code in ["KR", "US", "JP", "XK"] {
        assert_eq!(Region::parse(code).unwrap().to_string(), code);
    }
    for code in ["", "kr", "KOR", "ZZ", "001", "410", "K"] {
        assert_eq!(Region::parse(code), Err(UnknownRegion(code.to_owned())));
    }
}

/// Every region that the numbering plans know, for the tests that must not panic anywhere.
fn regions() -> Vec<Region> {
    DATABASE
        .iter()
        .filter_map(|plan| Region::parse(plan.id()).ok())
        .collect()
}

proptest! {
    #[test]
    fn any_prefix_and_grouping_of_a_korean_mobile_is_one_number(
        subscriber in "[1-9][0-9]{7}",
        prefix in prop::sample::select(vec!["010", "10", "+8210", "+82010", "8210", "82010", "008210", "0082010"]),
        separator in prop::sample::select(vec!["", "-", " ", ".", "–", "\u{200b}"]),
    ) {
        let (head, tail) = subscriber.split_at(4);
        let text = format!("{prefix}{separator}{head}{separator}{tail}");
        prop_assert_eq!(kr(&text), Ok(format!("+8210{subscriber}")));
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,40}", region in prop::sample::select(regions())) {
        if let Ok(number) = normalise(&text, region) {
            prop_assert!(number.len() <= MAX_E164_DIGITS + 1);
        }
    }

    #[test]
    fn any_digits_are_answered_and_stable(text in "[+]?[0-9]{0,22}", region in prop::sample::select(regions())) {
        if let Ok(number) = normalise(&text, region) {
            prop_assert_eq!(normalise(&number, region), Ok(number.clone()));
            prop_assert_eq!(normalise(&number, Region::KR), Ok(number));
        }
    }
}
