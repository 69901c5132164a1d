//! The configuration as people see it.

use std::fmt;

use super::{Env, mask, variables};

/// Every variable with its effective value, secrets masked; displayed one a line, aligned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary(Vec<Line>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    name: &'static str,
    value: String,
}

impl Summary {
    /// Works on a faulty environment, too.
    pub fn of(env: &Env) -> Self {
        let line = |variable: &variables::Variable| {
            let value = match (env.get(variable.name()), env.default_of(*variable)) {
                (Some(text), _) => mask::shown(*variable, text),
                (None, Some(default)) => format!("{default} (default)"),
                (None, None) => "(not set)".to_owned(),
            };
            Line {
                name: variable.name(),
                value,
            }
        };
        Self(variables::ALL.iter().map(line).collect())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .0
            .iter()
            .map(|line| line.name.len())
            .max()
            .unwrap_or_default();
        self.0
            .iter()
            .try_for_each(|line| writeln!(f, "{:width$}  {}", line.name, line.value))
    }
}
