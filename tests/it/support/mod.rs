//! What the tests share: databases, the app in this process, the binary in its own.

pub mod app;
pub mod books;
pub mod client;
pub mod command;
pub mod database;
pub mod dialect;
pub mod gateway;
pub mod google;
pub mod http;
#[cfg(target_os = "linux")]
pub mod inflating;
pub mod load;
pub mod process;
pub mod wait;
pub mod wire;

/// Runs a test on both databases: `name::sqlite` and `name::postgres`.
macro_rules! on_both_databases {
    ($(#[$meta:meta])* async fn $name:ident($database:ident: Database) $body:block) => {
        $(#[$meta])*
        mod $name {
            use super::*;
            use crate::support::database::Database;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                test(Database::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                test(Database::postgres().await).await;
            }

            async fn test($database: Database) $body
        }
    };
}

pub(crate) use on_both_databases;
