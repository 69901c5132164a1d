//! What was wrong with a request, and where.

use serde::Serialize;

/// One fault of a request body, as it is told to the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// RFC 6901 JSON pointer of the value at fault; empty for the whole body.
    pub pointer: String,
    /// What is wrong and how to mend it. Never shows a recipient in full.
    pub detail: String,
}

/// Every fault of a request, in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    malformed: bool,
    list: Vec<Fault>,
}

impl Faults {
    /// Whether one of them makes the body malformed (400), rather than well-formed but against
    /// the rules (422).
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The faults themselves.
    pub fn as_slice(&self) -> &[Fault] {
        &self.list
    }

    /// The faults themselves.
    pub fn into_vec(self) -> Vec<Fault> {
        self.list
    }

    /// Notes what is not JSON, of a wrong type, unknown or given twice.
    pub(super) fn malformed(&mut self, at: &Pointer, detail: impl Into<String>) {
        self.malformed = true;
        self.rule(at, detail);
    }

    /// Notes what is well-formed but against the rules.
    pub(super) fn rule(&mut self, at: &Pointer, detail: impl Into<String>) {
        self.list.push(Fault {
            pointer: at.0.clone(),
            detail: detail.into(),
        });
    }
}

/// An RFC 6901 JSON pointer under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer(String);

impl Pointer {
    /// The whole document.
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    /// A member of the object that this points at.
    pub(super) fn field(&self, name: &str) -> Self {
        Self(format!(
            "{}/{}",
            self.0,
            name.replace('~', "~0").replace('/', "~1")
        ))
    }

    /// An element of the array that this points at.
    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }
}
