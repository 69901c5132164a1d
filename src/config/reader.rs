//! Reads single variables and gathers what is wrong with them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::env::Env;
use super::mask;
use super::variables::{self, Variable};

/// One thing that is wrong, in one line: which variable, which value, how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    subject: String,
    problem: String,
}

impl Fault {
    /// `problem` continues a sentence that begins with the subject and must hold no secret.
    pub(super) fn new(subject: &str, problem: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.problem)
    }
}

/// All that is wrong with a configuration; displayed one fault a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<Fault>);

impl ConfigErrors {
    /// The faults, in the order of reading.
    pub fn faults(&self) -> &[Fault] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Stands for a value that could not be read; the fault itself is in the [`Reader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Faulty;

/// Reads variables of one [`Env`], remembering every fault and warning.
pub(super) struct Reader<'env> {
    env: &'env Env,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl<'env> Reader<'env> {
    pub(super) fn new(env: &'env Env) -> Self {
        Self {
            env,
            faults: env.faults().to_vec(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn env(&self) -> &'env Env {
        self.env
    }

    /// The text of a variable: as set, else its default.
    pub(super) fn text(&self, variable: Variable) -> Option<&'env str> {
        self.env
            .get(variable.name())
            .or_else(|| self.env.default_of(variable))
    }

    /// Whether a variable has a value other than its default.
    pub(super) fn is_set(&self, variable: Variable) -> bool {
        self.env.get(variable.name()).is_some()
    }

    /// Reads a variable that may be unset. `parse` says in its error what is wrong and how to mend
    /// it, in words that follow the value and do not repeat it.
    pub(super) fn optional<T>(
        &mut self,
        variable: Variable,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Faulty> {
        let Some(text) = self.text(variable) else {
            return Ok(None);
        };
        match parse(text) {
            Ok(value) => Ok(Some(value)),
            Err(problem) => Err(self.fault(variable, &problem)),
        }
    }

    /// Reads a variable that must have a value.
    pub(super) fn required<T>(
        &mut self,
        variable: Variable,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Faulty> {
        self.optional(variable, parse)?
            .ok_or_else(|| self.fault(variable, "is not set"))
    }

    /// Reads a whole number within `range`.
    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        variable: Variable,
        range: RangeInclusive<u64>,
    ) -> Result<T, Faulty> {
        self.required(variable, |text| {
            whole(text, &range, "").and_then(|n| T::try_from(n).map_err(|_| out_of(&range, "")))
        })
    }

    /// Reads a whole number; `None` when unset.
    pub(super) fn optional_number<T: TryFrom<u64>>(
        &mut self,
        variable: Variable,
        range: RangeInclusive<u64>,
    ) -> Result<Option<T>, Faulty> {
        self.optional(variable, |text| {
            whole(text, &range, "").and_then(|n| T::try_from(n).map_err(|_| out_of(&range, "")))
        })
    }

    /// Reads a length of time in whole milliseconds.
    pub(super) fn millis(
        &mut self,
        variable: Variable,
        range: RangeInclusive<u64>,
    ) -> Result<Duration, Faulty> {
        self.required(variable, |text| {
            whole(text, &range, " of milliseconds").map(Duration::from_millis)
        })
    }

    /// Reads a length of time in whole seconds.
    pub(super) fn seconds(
        &mut self,
        variable: Variable,
        range: RangeInclusive<u64>,
    ) -> Result<Duration, Faulty> {
        self.required(variable, |text| {
            whole(text, &range, " of seconds").map(Duration::from_secs)
        })
    }

    /// Reads a length of time in whole hours; `None` when unset.
    pub(super) fn optional_hours(
        &mut self,
        variable: Variable,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Duration>, Faulty> {
        self.optional(variable, |text| hours(text, &range))
    }

    /// Reads a length of time in whole hours.
    pub(super) fn hours(
        &mut self,
        variable: Variable,
        range: RangeInclusive<u64>,
    ) -> Result<Duration, Faulty> {
        self.required(variable, |text| hours(text, &range))
    }

    /// Records what is wrong with a variable's present value.
    pub(super) fn fault(&mut self, variable: Variable, problem: &str) -> Faulty {
        let subject = match self.text(variable) {
            Some(text) => format!("{}={}", variable.name(), mask::shown(variable, text)),
            None => variable.name().to_owned(),
        };
        self.faults.push(Fault::new(&subject, problem));
        Faulty
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// A misspelt name has no effect and no error of its own: say so.
    pub(super) fn warn_of_unknown_variables(&mut self) {
        const PREFIXES: [&str; 10] = [
            "BACKOFF_",
            "FCM_",
            "OUTBOX_",
            "PROVIDER_",
            "RETENTION_",
            "SENS_",
            "SHUTDOWN_",
            "SMS_",
            "SOLAPI_",
            "TWILIO_",
        ];
        for name in self.env.names() {
            let known = variables::ALL
                .iter()
                .any(|variable| variable.name() == name);
            let like_ours = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if like_ours && !known && self.env.get(name).is_some() {
                self.warnings.push(format!(
                    "{name} is not a variable of this version: it has no effect"
                ));
            }
        }
    }

    /// The value, unless anything at all was wrong.
    pub(super) fn finish<T>(self, value: Result<T, Faulty>) -> Result<T, ConfigErrors> {
        match value {
            Ok(value) if self.faults.is_empty() => Ok(value),
            _ => Err(ConfigErrors(self.faults)),
        }
    }
}

const SECONDS_PER_HOUR: u64 = 3600;

fn hours(text: &str, range: &RangeInclusive<u64>) -> Result<Duration, String> {
    let hours = whole(text, range, " of hours")?;
    Ok(Duration::from_secs(hours.saturating_mul(SECONDS_PER_HOUR)))
}

fn whole(text: &str, range: &RangeInclusive<u64>, unit: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| out_of(range, unit))
}

fn out_of(range: &RangeInclusive<u64>, unit: &str) -> String {
    format!(
        "is not a whole number{unit} from {} to {}",
        range.start(),
        range.end()
    )
}

/// `true` or `false`, and nothing that could be read either way.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("is neither true nor false: write one of them".to_owned()),
    }
}

/// Text that fits into an HTTP header as it is.
pub(super) fn visible_ascii(text: &str) -> Result<&str, String> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text)
    } else {
        Err("holds a blank or a character beyond ASCII: use visible ASCII characters".to_owned())
    }
}
