//! What of a value may be shown to people.

use super::variables::{Shown, Variable};

/// Stands for anything hidden; its length says nothing about the secret.
pub(super) const MASK: &str = "********";

/// Long values are cut in messages.
const MAX_SHOWN_CHARS: usize = 200;

/// URL parameters that never hold a secret.
const OPEN_PARAMETERS: [&str; 2] = ["sslmode", "sslrootcert"];

/// A value as it may be shown, on one line.
pub(super) fn shown(variable: Variable, value: &str) -> String {
    let visible = match variable.shown() {
        Shown::Plain => value.to_owned(),
        Shown::Secret => MASK.to_owned(),
        Shown::Url => url(value),
        Shown::Keys => keys(value),
        Shown::Path if holds_key(value) => MASK.to_owned(),
        Shown::Path => value.to_owned(),
    };
    one_line(&visible)
}

/// A key in Base64 is many times as long; a path of that length has a dot or begins with a slash.
const MIN_ENCODED_KEY_CHARS: usize = 200;

/// Whether a value that should be a path looks like the content of a key file, or a part of it.
pub(super) fn holds_key(value: &str) -> bool {
    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/-_=".contains(c);
    let encoded = value.len() >= MIN_ENCODED_KEY_CHARS
        && !value.starts_with('/')
        && value.chars().all(base64);
    encoded || value.contains(['{', '}', '"', '\n']) || value.contains("PRIVATE KEY")
}

/// Control characters escaped and the length capped.
pub(super) fn one_line(value: &str) -> String {
    let mut line: String = value
        .chars()
        .take(MAX_SHOWN_CHARS)
        .map(|c| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        })
        .collect();
    if value.chars().nth(MAX_SHOWN_CHARS).is_some() {
        line.push('…');
    }
    line
}

/// Hides user info and parameters. Works on text, since what is shown is often no valid URL, and
/// hides rather too much: a password may hold unescaped `@`, `/` or `?`.
pub(super) fn url(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else {
        let open = !value.contains(['@', '=']);
        return if open {
            value.to_owned()
        } else {
            MASK.to_owned()
        };
    };
    if let Some((_, after_user_info)) = rest.rsplit_once('@') {
        return format!("{scheme}://{MASK}@{}", mask_query(after_user_info));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.split(',').any(looks_like_credentials) {
        return format!("{scheme}://{MASK}");
    }
    format!("{scheme}://{}", mask_query(rest))
}

/// `user:password` of a URL whose host was forgotten, where `host:port` should be.
fn looks_like_credentials(host: &str) -> bool {
    match host.rsplit_once(':') {
        Some((_, port)) if !host.ends_with(']') => !port.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

fn mask_query(rest: &str) -> String {
    let Some((path, query)) = rest.split_once('?') else {
        return rest.to_owned();
    };
    let pairs: Vec<String> = query.split('&').map(mask_pair).collect();
    format!("{path}?{}", pairs.join("&"))
}

fn mask_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if OPEN_PARAMETERS.contains(&name) => pair.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    }
}

/// Shows the names of well-formed keys only: of others, nobody knows which part is the key.
fn keys(value: &str) -> String {
    match super::http::parse_api_keys(value) {
        Ok(keys) => {
            let names: Vec<String> = keys
                .iter()
                .map(|key| format!("{}={MASK}", key.name))
                .collect();
            names.join(",")
        }
        Err(_) => MASK.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_their_secrets_whatever_their_form() {
        for (value, expected) in [
            ("sqlite://paybell.db", "sqlite://paybell.db"),
            (":memory:", ":memory:"),
            (
                "postgres://u:pw@db:5432/pay?sslmode=require",
                "postgres://********@db:5432/pay?sslmode=require",
            ),
            ("postgres://u:p@w/x?y@db/pay", "postgres://********@db/pay"),
            ("postgres://user:secretpw", "postgres://********"),
            ("postgres://user:secretpw/db", "postgres://********"),
            ("postgres://[::1]/db", "postgres://[::1]/db"),
            ("postgres://[::1]:5432/db", "postgres://[::1]:5432/db"),
            (
                "postgres://h/db?password=pw&sslmode=disable",
                "postgres://h/db?password=********&sslmode=disable",
            ),
            (
                "https://token@gateway.example/sms",
                "https://********@gateway.example/sms",
            ),
            (
                "https://gateway.example/sms?pw",
                "https://gateway.example/sms?********",
            ),
            ("host=db user=u password=pw", "********"),
        ] {
            assert_eq!(url(value), expected, "{value}");
        }
    }

    #[test]
    fn values_stay_on_one_short_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(one_line(&"x".repeat(201)).chars().count(), 201);
        assert!(one_line(&"x".repeat(201)).ends_with('…'));
        assert!(!one_line(&"x".repeat(200)).ends_with('…'));
    }

    #[test]
    fn keys_show_their_names_only_when_well_formed() {
        assert_eq!(keys("shop=s3cret,other"), "shop=********,default=********");
        assert_eq!(keys("shop=s3cret,,"), MASK);
    }
}
