//! Statements that are written as SQL: the few that are the engine's heartbeat and differ between
//! the databases. Everything else goes through the query builder.

/// Declares a statement as a type: its text with a `?` for each bind in order, the SQL types of
/// its binds and of its result. As a type it is prepared once a connection and then kept, which
/// `diesel::sql_query` is not.
macro_rules! statement {
    (
        $(#[$meta:meta])*
        $name:ident on $db:ty => $row:ty;
        sql: $sql:expr;
        $($field:ident: $sql_type:ty = $rust:ty),* $(,)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub(super) struct $name { $(pub(super) $field: $rust),* }

        impl diesel::query_builder::QueryId for $name {
            type QueryId = $name;
            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl diesel::query_builder::Query for $name {
            type SqlType = $row;
        }

        impl diesel::query_builder::QueryFragment<$db> for $name {
            fn walk_ast<'b>(
                &'b self,
                mut out: diesel::query_builder::AstPass<'_, 'b, $db>,
            ) -> diesel::QueryResult<()> {
                let mut pieces = $sql.split('?');
                out.push_sql(pieces.next().unwrap_or_default());
                $(
                    out.push_bind_param::<$sql_type, $rust>(&self.$field)?;
                    out.push_sql(pieces.next().unwrap_or_default());
                )*
                debug_assert!(pieces.next().is_none(), "more placeholders than binds");
                Ok(())
            }
        }

        impl<C> diesel::RunQueryDsl<C> for $name {}
    };
}

pub(super) use statement;
