//! Every dialect end to end: whatever a provider does, each row ends as the dialect's table says,
//! and nothing is sent twice that can be asked about.

mod faults;
mod kills;
mod look_ups;
mod pushes;
mod sends;
mod texts;
mod tokens;
mod twins;
mod unanswered;

/// A test of each dialect of text messages, named after it, on both databases.
macro_rules! in_each_dialect {
    ($(#[$meta:meta])* async fn $name:ident($database:ident: Database, $dialect:ident: &str) $body:block) => {
        $(#[$meta])*
        mod $name {
            use super::*;

            $crate::dialects::in_each_dialect!(@ http, twilio, solapi, sens);

            async fn test_of($database: crate::support::database::Database, $dialect: &str) $body
        }
    };
    (@ $($dialect:ident),*) => {
        $(crate::support::on_both_databases! {
            async fn $dialect(database: Database) {
                test_of(database, stringify!($dialect)).await;
            }
        })*
    };
}

use in_each_dialect;
