//! Reads a text as a person would who knows how programs write characters: `%ED%95%9C`, `\ud55c`
//! and `&#54620;` are all one 한.
//!
//! A provider that repeats a message does so in the form in which it logs, not in which it was
//! sent. What must be hidden is therefore looked for in what a text means, and cut out of how it is
//! written.

use std::ops::Range;

/// One character, and the place where it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyph<'a> {
    /// What it stands for. A run of blanks and control characters is one space.
    pub means: char,
    /// How it is written.
    pub written: &'a [char],
}

/// Longer entities are none that we read.
const MAX_ENTITY_CHARS: usize = 10;

/// A JSON text in a form is written in two ways at once; nobody writes in more.
const LAYERS: usize = 3;

/// The text, character by character.
pub fn read(text: &[char]) -> Vec<Glyph<'_>> {
    let mut read: Vec<(char, Range<usize>)> = layer(text);
    for _ in 1..LAYERS {
        let means: Vec<char> = read.iter().map(|(means, _)| *means).collect();
        let above = layer(&means).into_iter();
        read = above
            .map(|(means, Range { start, end })| (means, read[start].1.start..read[end - 1].1.end))
            .collect();
    }
    read.into_iter()
        .map(|(means, at)| Glyph {
            means,
            written: &text[at],
        })
        .collect()
}

/// What escapes stand for, and where each of them is.
fn layer(text: &[char]) -> Vec<(char, Range<usize>)> {
    let mut read: Vec<(char, Range<usize>)> = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (means, length) = escape(&text[at..]).unwrap_or((text[at], 1));
        let end = at + length;
        let blank = means.is_whitespace() || means.is_control();
        match read.last_mut() {
            Some((' ', place)) if blank => place.end = end,
            _ => read.push((if blank { ' ' } else { means }, at..end)),
        }
        at = end;
    }
    read
}

/// The character that an escape at the start of the text stands for, and the escape's length.
fn escape(text: &[char]) -> Option<(char, usize)> {
    match text {
        ['%', ..] => percent(text),
        ['\\', 'u', ..] => utf16(text),
        ['\\', c, ..] => Some((backslash(*c)?, 2)),
        ['&', ..] => entity(text),
        _ => None,
    }
}

/// UTF-8, each byte as `%XX`.
fn percent(text: &[char]) -> Option<(char, usize)> {
    let byte = |n: usize| match text.get(3 * n..)? {
        ['%', high, low, ..] => u8::try_from(hex(&[*high, *low])?).ok(),
        _ => None,
    };
    let length = match byte(0)?.leading_ones() {
        0 => 1,
        2 => 2,
        3 => 3,
        4 => 4,
        _ => return None,
    };
    let bytes = (0..length).map(byte).collect::<Option<Vec<u8>>>()?;
    let c = std::str::from_utf8(&bytes).ok()?.chars().next()?;
    Some((c, 3 * length))
}

/// `\uXXXX` of JSON, in pairs where UTF-16 has pairs.
fn utf16(text: &[char]) -> Option<(char, usize)> {
    let unit = |at: usize| match text.get(at..at + 6)? {
        ['\\', 'u', digits @ ..] => u16::try_from(hex(digits)?).ok(),
        _ => None,
    };
    let units = [unit(0)?, unit(6).unwrap_or_default()];
    let c = char::decode_utf16(units).next()?.ok()?;
    Some((c, 6 * c.len_utf16()))
}

fn backslash(c: char) -> Option<char> {
    match c {
        'n' | 'r' | 't' | 'b' | 'f' => Some(' '),
        '"' | '\'' | '\\' | '/' => Some(c),
        _ => None,
    }
}

/// Of HTML and XML: by number, and the names that every program writes.
fn entity(text: &[char]) -> Option<(char, usize)> {
    let end = text.iter().take(MAX_ENTITY_CHARS).position(|&c| c == ';')?;
    let c = match text.get(1..end)? {
        ['#', 'x' | 'X', digits @ ..] => char::from_u32(hex(digits)?)?,
        ['#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        name => match name.iter().collect::<String>().as_str() {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            "nbsp" => ' ',
            _ => return None,
        },
    };
    Some((c, end + 1))
}

fn hex(digits: &[char]) -> Option<u32> {
    number(digits, 16)
}

/// At most so many digits that it fits.
fn number(digits: &[char], radix: u32) -> Option<u32> {
    let all = (1..=7).contains(&digits.len());
    let add = |sum: u32, digit: &char| Some(sum * radix + digit.to_digit(radix)?);
    all.then(|| digits.iter().try_fold(0, add))?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meaning(text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        read(&chars).iter().map(|glyph| glyph.means).collect()
    }

    #[test]
    fn every_spelling_is_read() {
        let table = [
            ("plain 한", "plain 한"),
            ("%2B82%20%ed%95%9c", "+82 한"),
            (r"\ud55c\u0031\ud83d\ude00", "한1😀"),
            (r#"\"a\\q\/\r\n\tc"#, "\"a\\q/ c"),
            ("&#54620;&#xD55C;&lt;&amp;&nbsp;&quot;", "한한<& \""),
            ("a%0D%0A\n b", "a b"),
            // In two ways at once.
            (r"%5Cud55c%5c%5cn%26lt%3b", "한 <"),
            // Nothing that can be read.
            ("100% of %zz %e2%zz %ff", "100% of %zz %e2%zz %ff"),
            (r"\u12 \q \ud83d \", r"\u12 \q \ud83d \"),
            (
                "&; &#; &#xFFFFFFFF; &unknown; R&D",
                "&; &#; &#xFFFFFFFF; &unknown; R&D",
            ),
        ];
        for (written, expected) in table {
            assert_eq!(meaning(written), expected, "{written}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "([a-z%&;#\\\\u0-9 \\n]|\\PC){0,60}") {
            let chars: Vec<char> = text.chars().collect();
            let glyphs = read(&chars);
            let written: Vec<char> = glyphs.iter().flat_map(|glyph| glyph.written).copied().collect();
            prop_assert_eq!(&written, &chars);
        }
    }
}
