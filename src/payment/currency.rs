//! Currencies: which codes are taken, how many decimals they have and how an amount reads.

use std::fmt;

use super::Locale;

/// A circulating currency of ISO 4217, with a known number of decimals.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

/// A code that is not that of a currency in use. It does not carry the code: a caller may have
/// put anything there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the ISO 4217 code of a currency in use: give three capital letters, such as KRW or USD"
)]
pub struct UnknownCurrency;

/// Codes that `iso_currency` marks as superseded although ISO 4217 list one still has them:
/// Venezuela's VES (928) and VED (926) are both current.
const STILL_IN_USE: [iso_currency::Currency; 1] = [iso_currency::Currency::VES];

/// Currencies whose bare symbol can mean nothing else to a reader. `¥` (JPY, CNY), `$` of other
/// dollars and pesos, `kr` and the like are shared, so those amounts carry the code instead.
const SYMBOLS: [(&str, &str); 5] = [
    ("KRW", "₩"),
    ("USD", "$"),
    ("EUR", "€"),
    ("GBP", "£"),
    ("INR", "₹"),
];

impl Currency {
    /// Takes exactly the capital-letter codes of currencies that are in use today.
    ///
    /// # Errors
    /// [`UnknownCurrency`] for lower case, codes that are not in ISO 4217, withdrawn currencies
    /// (HRK, BGN, ...), funds codes (CLF, USN, ...) and what is no money at all (XXX, XTS, XAU).
    pub fn parse(code: &str) -> Result<Self, UnknownCurrency> {
        let currency = iso_currency::Currency::from_code(code).ok_or(UnknownCurrency)?;
        let withdrawn = currency.is_superseded().is_some() && !STILL_IN_USE.contains(&currency);
        if withdrawn || currency.is_fund() || currency.is_special() || currency.exponent().is_none()
        {
            return Err(UnknownCurrency);
        }
        Ok(Self(currency))
    }

    /// The three-letter code.
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// How many decimals the minor unit stands for: 0 for KRW, 2 for USD, 3 for KWD.
    pub fn exponent(self) -> u8 {
        // `parse` refuses what has none, and ISO 4217 knows none above 4.
        self.0
            .exponent()
            .and_then(|digits| u8::try_from(digits).ok())
            .unwrap_or(0)
    }

    /// An amount in the minor unit as people of the locale read it, in integer arithmetic only:
    /// `15,000원`, `$12.50`, `KWD 1.234`.
    pub fn format(self, amount_minor: i64, locale: Locale) -> String {
        let number = self.decimal(amount_minor.unsigned_abs());
        let sign = if amount_minor < 0 { "-" } else { "" };
        if self.code() == "KRW" && locale == Locale::Ko {
            return format!("{sign}{number}원");
        }
        match SYMBOLS.iter().find(|(code, _)| *code == self.code()) {
            Some((_, symbol)) => format!("{sign}{symbol}{number}"),
            None => format!("{} {sign}{number}", self.code()),
        }
    }

    /// Digits with thousands separators and this currency's decimals.
    fn decimal(self, amount_minor: u64) -> String {
        let decimals = usize::from(self.exponent());
        let digits = format!("{amount_minor:0>width$}", width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        let whole = group_thousands(whole);
        if fraction.is_empty() {
            whole
        } else {
            format!("{whole}.{fraction}")
        }
    }
}

/// Puts a comma before every group of three digits, counted from the end.
fn group_thousands(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use iso_currency::IntoEnumIterator;
    use proptest::prelude::*;

    use super::*;

    fn money(code: &str, amount: i64, locale: Locale) -> String {
        Currency::parse(code).unwrap().format(amount, locale)
    }

    #[test]
    fn takes_currencies_in_use_with_their_decimals() {
        let cases = [
            ("KRW", 0),
            ("JPY", 0),
            ("USD", 2),
            ("EUR", 2),
            ("KWD", 3),
            ("IQD", 3),
            ("ISK", 0),
            ("MGA", 2),
            ("SLE", 2),
            ("XCG", 2),
            ("ZWG", 2),
            ("VES", 2),
            ("VED", 2),
            ("XOF", 0),
        ];
        for (code, exponent) in cases {
            let currency = Currency::parse(code).unwrap();
            assert_eq!(currency.exponent(), exponent, "{code}");
            assert_eq!(currency.to_string(), code);
        }
    }

    #[test]
    fn refuses_everything_else() {
        let refused = [
            // Not a code at all, or not in capitals.
            "", "usd", "Usd", " USD", "USD ", "US", "USDD", "XXQ", "₩", "840",
            // Withdrawn.
            "HRK", "BGN", "SLL", "ZWL", "CUC", "ANG", "DEM", "MRO", "STD", "BYR", "LTL", "VEF",
            // Funds, metals, units of account, no currency.
            "BOV", "CHE", "CHW", "CLF", "COU", "MXV", "USN", "UYI", "UYW", "XAU", "XAG", "XPD",
            "XPT", "XBA", "XDR", "XSU", "XUA", "XAD", "XTS", "XXX",
        ];
        for code in refused {
            assert_eq!(Currency::parse(code), Err(UnknownCurrency), "{code:?}");
        }
    }

    #[test]
    fn every_currency_taken_has_its_decimals_from_the_table() {
        let taken: Vec<_> = iso_currency::Currency::iter()
            .filter(|currency| Currency::parse(currency.code()).is_ok())
            .collect();
        assert!(taken.len() > 150, "{}", taken.len());
        for currency in taken {
            let exponent = Currency::parse(currency.code()).unwrap().exponent();
            assert_eq!(
                currency.exponent(),
                Some(u16::from(exponent)),
                "{currency:?}"
            );
        }
    }

    #[test]
    fn reads_as_people_write_it() {
        use Locale::{En, Ko};
        let cases = [
            ("KRW", 15_000, Ko, "15,000원"),
            ("KRW", 15_000, En, "₩15,000"),
            ("KRW", 999, Ko, "999원"),
            ("KRW", 1_000_000, Ko, "1,000,000원"),
            ("USD", 1250, Ko, "$12.50"),
            ("USD", 5, En, "$0.05"),
            ("USD", 123_456_789, En, "$1,234,567.89"),
            ("EUR", 100, En, "€1.00"),
            ("GBP", 1, En, "£0.01"),
            ("JPY", 500, En, "JPY 500"),
            ("KWD", 1234, En, "KWD 1.234"),
            ("CAD", 1250, En, "CAD 12.50"),
            ("USD", -1250, En, "-$12.50"),
        ];
        for (code, amount, locale, expected) in cases {
            assert_eq!(money(code, amount, locale), expected);
        }
    }

    #[test]
    fn the_largest_amount_is_exact() {
        assert_eq!(
            money("KRW", 9_007_199_254_740_991, Locale::Ko),
            "9,007,199,254,740,991원"
        );
        assert_eq!(
            money("USD", 9_007_199_254_740_991, Locale::En),
            "$90,071,992,547,409.91"
        );
        assert_eq!(
            money("KRW", i64::MIN, Locale::En),
            "-₩9,223,372,036,854,775,808"
        );
    }

    proptest! {
        #[test]
        fn no_digit_is_lost(amount in 1_i64..=9_007_199_254_740_991, code in prop::sample::select(vec!["KRW", "USD", "KWD"])) {
            let text = money(code, amount, Locale::En);
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            prop_assert_eq!(digits.parse::<i64>().unwrap(), amount);
        }
    }
}
