//! Keyset cursors: the id after which the next page begins. Ids are UUIDv7, so their order is the
//! order of time, and rows added meanwhile never move a page.

use uuid::Uuid;

use super::problem::Problem;

/// Tells a cursor from an id that somebody pasted.
const PREFIX: &str = "after-";

/// The cursor to the page after `last`.
pub fn encode(last: Uuid) -> String {
    format!("{PREFIX}{}", last.simple())
}

/// Reads a cursor.
///
/// # Errors
/// [`Problem::BadParameter`] for anything that [`encode`] does not make.
pub fn decode(text: &str) -> Result<Uuid, Problem> {
    text.strip_prefix(PREFIX)
        .filter(|id| id.len() == 32)
        .and_then(|id| Uuid::try_parse(id).ok())
        .ok_or_else(|| Problem::BadParameter {
            name: "cursor".into(),
            detail: "is not one that this service gave: take next_cursor of the page before, or \
                     leave it out"
                .into(),
        })
}

/// Splits what was read with one row too many into a page and the cursor to the next.
pub fn page<T>(
    mut rows: Vec<T>,
    limit: usize,
    id: impl Fn(&T) -> Uuid,
) -> (Vec<T>, Option<String>) {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| encode(id(row)));
    (rows, next)
}
