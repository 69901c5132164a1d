//! The tables, once for both databases: `MomentSql` and `UuidSql` stand for `timestamptz` and
//! `uuid` on PostgreSQL, and for integer microseconds and 16-byte blobs on SQLite.
//!
//! Written by hand beside `migrations/`; a test of the store inserts and reads every column.

diesel::table! {
    use diesel::sql_types::*;
    use crate::store::sql_types::*;

    payments (id) {
        id -> UuidSql,
        client -> Text,
        order_id -> Text,
        amount -> BigInt,
        currency -> Text,
        status -> Text,
        description -> Nullable<Text>,
        locale -> Nullable<Text>,
        idempotency_key -> Nullable<Text>,
        fingerprint -> Nullable<Binary>,
        response -> Binary,
        notification_count -> Integer,
        created_at -> MomentSql,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::store::sql_types::*;

    outbox (id) {
        id -> UuidSql,
        payment_id -> UuidSql,
        event_type -> Text,
        channel -> Text,
        provider -> Text,
        recipient -> Text,
        payload -> Text,
        payload_version -> Integer,
        reference -> Text,
        status -> Text,
        reason -> Nullable<Text>,
        attempts -> Integer,
        deferrals -> Integer,
        lost_leases -> Integer,
        replays -> Integer,
        epoch -> BigInt,
        claimed_by -> Nullable<UuidSql>,
        maybe_sent -> Bool,
        processable_after -> MomentSql,
        next_retry_at -> Nullable<MomentSql>,
        expires_at -> MomentSql,
        last_error -> Nullable<Text>,
        provider_message_id -> Nullable<Text>,
        trace_context -> Nullable<Text>,
        created_at -> MomentSql,
        updated_at -> MomentSql,
        sent_at -> Nullable<MomentSql>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use crate::store::sql_types::*;

    attempts (outbox_id, epoch) {
        outbox_id -> UuidSql,
        epoch -> BigInt,
        attempt -> Integer,
        started_at -> MomentSql,
        finished_at -> MomentSql,
        outcome -> Text,
        http_status -> Nullable<Integer>,
        error -> Nullable<Text>,
        provider -> Text,
        provider_message_id -> Nullable<Text>,
        times -> Integer,
    }
}

diesel::table! {
    totals (name) {
        name -> Text,
        value -> BigInt,
    }
}

diesel::joinable!(outbox -> payments (payment_id));
diesel::joinable!(attempts -> outbox (outbox_id));
diesel::allow_tables_to_appear_in_same_query!(payments, outbox, attempts, totals);
