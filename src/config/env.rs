//! Where variables come from: the process environment, and a `.env` file below it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;

use super::reader::Fault;
use super::variables;

/// A set of variables, read once. Tests and the demo make their own from pairs, so that they never
/// depend on the process environment.
#[derive(Clone, Default)]
pub struct Env {
    values: BTreeMap<String, String>,
    faults: Vec<Fault>,
}

impl Env {
    /// The process environment and, for names it does not have, `.env` in the current directory.
    ///
    /// A name that the environment has with an empty value counts as unset and still hides the
    /// file's value. Faults in either (a value that is not UTF-8, an unreadable line) are kept and
    /// come out of [`super::Config::from_env`] together with all others.
    pub fn load() -> Self {
        Self::from_os(std::env::vars_os()).with_dotenv(Path::new(".env"))
    }

    fn from_os(pairs: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut env = Self::default();
        for (name, value) in pairs {
            let Ok(name) = name.into_string() else {
                continue;
            };
            match value.into_string() {
                Ok(value) => {
                    env.values.insert(name, value);
                }
                Err(_) if is_ours(&name) => {
                    let problem = "is not valid UTF-8: write it as UTF-8 text";
                    env.faults.push(Fault::new(&name, problem));
                }
                Err(_) => {}
            }
        }
        env
    }

    /// Adds what the file at `path` sets and this set does not; a missing file adds nothing.
    #[must_use]
    pub fn with_dotenv(mut self, path: &Path) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) => self.add_dotenv(text.trim_start_matches('\u{feff}'), path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let problem = format!("cannot be read: {error}; mend it or remove the file");
                self.fault(path, &problem);
            }
        }
        self
    }

    fn add_dotenv(&mut self, text: &str, path: &Path) {
        let mut seen = BTreeSet::new();
        for item in dotenvy::from_read_iter(text.as_bytes()) {
            match item {
                Ok((name, _)) if !seen.insert(name.clone()) => {
                    self.fault(path, &format!("sets {name} twice: keep one of the lines"));
                }
                Ok((name, value)) => {
                    self.values.entry(name).or_insert(value);
                }
                Err(dotenvy::Error::LineParse(line, _)) => self.fault(path, &bad_line(text, &line)),
                Err(_) => self.fault(path, "cannot be read to its end"),
            }
        }
    }

    fn fault(&mut self, path: &Path, problem: &str) {
        self.faults
            .push(Fault::new(&path.display().to_string(), problem));
    }

    /// The value of a variable; empty and blank count as unset, blanks around it are dropped (a
    /// secret from a file often ends in a newline).
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values
            .get(name)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// A variable's value when it is unset, given the others.
    pub(super) fn default_of(&self, variable: variables::Variable) -> Option<&'static str> {
        variable.default_with(self.get(variables::SMS_PROVIDER.name()))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    pub(super) fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

/// The line itself is not shown: it may hold a secret. `rest` is its unread end.
fn bad_line(text: &str, rest: &str) -> String {
    let end = rest.lines().next().unwrap_or_default().trim();
    let mut candidates = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim().ends_with(end));
    let place = match (candidates.next(), candidates.next()) {
        (Some((at, _)), None) => format!("line {}", at + 1),
        _ => "has a line that".to_owned(),
    };
    format!(
        "{place} cannot be read: write NAME=value, and put a value with spaces, $, #, \\ or quotes \
         in single quotes"
    )
}

fn is_ours(name: &str) -> bool {
    variables::ALL
        .iter()
        .any(|variable| variable.name() == name)
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let values = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            values,
            faults: Vec::new(),
        }
    }
}

impl fmt::Debug for Env {
    /// Values may be secrets: only names are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn with_file(env: Env, text: &str) -> Env {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        std::fs::write(&path, text).unwrap();
        env.with_dotenv(&path)
    }

    fn faults(env: &Env) -> Vec<String> {
        env.faults().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_file_never_overrides_the_environment() {
        let env = Env::from_iter([("A", "env"), ("EMPTY", "")]);
        let env = with_file(env, "A=file\nB='file $x'\nEMPTY=file\n");
        assert_eq!(env.get("A"), Some("env"));
        assert_eq!(env.get("B"), Some("file $x"));
        assert_eq!(env.get("EMPTY"), None);
        assert!(faults(&env).is_empty());
    }

    #[test]
    fn a_missing_file_is_no_fault_and_a_folder_in_its_place_is_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            Env::default()
                .with_dotenv(&folder.path().join(".env"))
                .faults()
                .is_empty()
        );
        let env = Env::default().with_dotenv(folder.path());
        assert!(faults(&env).concat().contains("cannot be read"));
    }

    #[test]
    fn blanks_and_a_byte_order_mark_do_not_count() {
        let env = with_file(
            Env::from_iter([("A", " x\n"), ("B", " \t")]),
            "\u{feff}C=c\r\nD=d\r\n",
        );
        assert_eq!(env.get("A"), Some("x"));
        assert_eq!(env.get("B"), None);
        assert_eq!(env.get("C"), Some("c"));
        assert_eq!(env.get("D"), Some("d"));
    }

    #[test]
    fn bad_and_doubled_lines_are_named_without_their_text() {
        let env = with_file(Env::default(), "A=1\nADMIN_TOKEN=top secret\nA=2\nB=2\n");
        let faults = faults(&env);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("line 2 cannot be read"), "{faults:?}");
        assert!(faults[1].contains("sets A twice"), "{faults:?}");
        assert!(!faults.concat().contains("secret"));
        assert_eq!(env.get("B"), Some("2"), "reading goes on after a bad line");
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_utf8_is_a_fault_of_our_variables_only() {
        use std::os::unix::ffi::OsStringExt;
        let bad = || OsString::from_vec(vec![0xff]);
        let env = Env::from_os([("BIND_ADDR".into(), bad()), ("OTHER".into(), bad())].into_iter());
        assert_eq!(faults(&env).len(), 1);
        assert!(faults(&env)[0].starts_with("BIND_ADDR is not valid UTF-8"));
    }

    #[test]
    fn debug_shows_no_value() {
        let env = Env::from_iter([("ADMIN_TOKEN", "hidden")]);
        assert_eq!(format!("{env:?}"), r#"{"ADMIN_TOKEN"}"#);
    }
}
