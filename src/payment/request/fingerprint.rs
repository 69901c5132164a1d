//! When two requests are the same request.
//!
//! The canonical form is the request as JSON with its fields in the order of their names, without
//! those that are left out or `null`, and before any default or normalisation is applied. So the
//! order of fields, white space and escapes do not matter, but `010-1234-5678` and
//! `+821012345678` are two requests. Field order below is therefore part of stored data.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// A request in canonical form; fields in the order of their names.
#[derive(Serialize)]
pub(super) struct Canonical<'a> {
    pub(super) amount: i64,
    pub(super) currency: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) locale: Option<&'a str>,
    pub(super) notifications: Vec<CanonicalNotification<'a>>,
    pub(super) order_id: &'a str,
}

/// An entry of `/notifications` in canonical form; fields in the order of their names.
#[derive(Serialize)]
pub(super) struct CanonicalNotification<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<&'a str>,
    pub(super) channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    pub(super) to: &'a str,
}

impl Canonical<'_> {
    /// SHA-256 of the canonical form.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        #[expect(
            clippy::expect_used,
            reason = "strings and integers in structs and string-keyed maps are always valid JSON"
        )]
        let json = serde_json::to_vec(self).expect("a canonical request is JSON");
        Sha256::digest(json).into()
    }
}
