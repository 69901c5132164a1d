//! JSON as it was written: literals stay visible, fields given twice are noticed.
//!
//! Only the text of a value is kept until its type is known, so nesting never recurses here, and
//! no message of the JSON reader that could quote the body reaches an answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::faults::{Faults, Pointer};

/// The single JSON value that a body is.
pub(super) fn document<'a>(body: &'a [u8], faults: &mut Faults) -> Option<&'a RawValue> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            faults.malformed(
                &Pointer::root(),
                format!("the body is not UTF-8: the byte at offset {at} is wrong"),
            );
            return None;
        }
    };
    match serde_json::from_str(text) {
        Ok(raw) => Some(raw),
        Err(error) => {
            // Syntax errors have fixed texts that never quote the body.
            faults.malformed(&Pointer::root(), format!("the body is not JSON: {error}"));
            None
        }
    }
}

/// An object whose fields are taken one by one.
pub(super) struct Object<'a> {
    pointer: Pointer,
    fields: BTreeMap<String, &'a RawValue>,
}

impl<'a> Object<'a> {
    /// Reads an object and notes fields that are given twice.
    pub(super) fn read(raw: &'a RawValue, at: Pointer, faults: &mut Faults) -> Option<Self> {
        if kind(raw) != Kind::Object {
            refuse_type(raw, &at, Kind::Object, faults);
            return None;
        }
        let Ok(members) = serde_json::from_str::<Members<'a>>(raw.get()) else {
            // The syntax was checked with the whole body; only a name can be wrong now.
            faults.malformed(&at, "a field name has a broken \\u escape");
            return None;
        };
        let mut fields = BTreeMap::new();
        for (name, value) in members.0 {
            let member = at.field(&name);
            if fields.insert(name, value).is_some() {
                faults.malformed(&member, "is given more than once");
            }
        }
        Some(Self {
            pointer: at,
            fields,
        })
    }

    /// Where a field of this object is.
    pub(super) fn at(&self, name: &str) -> Pointer {
        self.pointer.field(name)
    }

    /// Takes a field out; `null` is the same as left out.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.fields
            .remove(name)
            .filter(|raw| kind(raw) != Kind::Null)
    }

    /// Takes a field that must be there.
    pub(super) fn take_required(
        &mut self,
        name: &str,
        faults: &mut Faults,
    ) -> Option<&'a RawValue> {
        let value = self.take(name);
        if value.is_none() {
            faults.rule(&self.at(name), "is required");
        }
        value
    }

    /// Takes a string that must be there.
    pub(super) fn required_string(&mut self, name: &str, faults: &mut Faults) -> Option<String> {
        let raw = self.take_required(name, faults)?;
        string(raw, &self.at(name), faults)
    }

    /// Takes a string that may be left out: `Some(None)` then, `None` when it is no string.
    pub(super) fn optional_string(
        &mut self,
        name: &str,
        faults: &mut Faults,
    ) -> Option<Option<String>> {
        match self.take(name) {
            None => Some(None),
            Some(raw) => string(raw, &self.at(name), faults).map(Some),
        }
    }

    /// All fields that are left, in the order of their names, without those that are `null`.
    pub(super) fn into_fields(self) -> impl Iterator<Item = (String, &'a RawValue)> {
        self.fields
            .into_iter()
            .filter(|(_, raw)| kind(raw) != Kind::Null)
    }

    /// Notes every field that was not taken.
    pub(super) fn refuse_unknown(self, known: &str, faults: &mut Faults) {
        for name in self.fields.keys() {
            faults.malformed(
                &self.pointer.field(name),
                format!("is not a known field; there are: {known}"),
            );
        }
    }
}

/// A string's value.
pub(super) fn string(raw: &RawValue, at: &Pointer, faults: &mut Faults) -> Option<String> {
    if kind(raw) != Kind::String {
        refuse_type(raw, at, Kind::String, faults);
        return None;
    }
    let text = serde_json::from_str(raw.get()).ok();
    if text.is_none() {
        faults.malformed(at, "has a broken \\u escape");
    }
    text
}

/// An array's elements.
pub(super) fn array<'a>(
    raw: &'a RawValue,
    at: &Pointer,
    faults: &mut Faults,
) -> Option<Vec<&'a RawValue>> {
    let elements = serde_json::from_str(raw.get()).ok();
    if elements.is_none() {
        refuse_type(raw, at, Kind::Array, faults);
    }
    elements
}

/// Notes that a value is of another type than it must be.
pub(super) fn refuse_type(raw: &RawValue, at: &Pointer, expected: Kind, faults: &mut Faults) {
    let found = kind(raw);
    faults.malformed(at, format!("must be {expected}, not {found}"));
}

/// The JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// A value's type, told by its first character.
pub(super) fn kind(raw: &RawValue) -> Kind {
    match raw.get().bytes().next() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') | None => Kind::Null,
        Some(_) => Kind::Number,
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// An object's members in the order given, with repetitions.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, _>()? {
                    members.push((name.into_owned(), value));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(InOrder).map(Members)
    }
}
