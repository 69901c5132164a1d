//! What lies around the service and is none of its own: the system's proxies, time zones, and
//! connections that the other side ends.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use paybell::provider::mock::{Behavior, Target};
use serde_json::Value;

use crate::support::app::{Settings, notification};
use crate::support::gateway::{Answer, Gateway};
use crate::support::load::{mock, nobodys_address, one_sms, sms_and_push};
use crate::support::on_both_databases;
use crate::support::process::Process;

on_both_databases! {
    /// `HTTP_PROXY` and its kin are somebody else's settings; only `PROVIDER_PROXY` is ours.
    async fn the_systems_proxies_divert_nothing(database: Database) {
        let mock = mock();
        let nobody = format!("http://{}", nobodys_address());
        let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
        let settings = names.iter().fold(Settings::new(&database, &mock), |settings, name| {
            settings.with(name, &nobody)
        });
        let process = Process::serve(&settings).await;
        let client = process.client();
        let answer = client.pay(&sms_and_push(0)).await;
        for n in 0..2 {
            let row = client.row_in(&notification(&answer, n), "SENT").await;
            assert_eq!(row["deferrals"], 0);
        }
    }
}

fn moment(row: &Value, field: &str) -> DateTime<Utc> {
    let text = row[field].as_str().unwrap();
    assert!(text.ends_with('Z'), "{field} is {text}");
    text.parse().unwrap()
}

on_both_databases! {
    /// Neither the process's zone nor the database's moves a moment or a retry.
    async fn time_zones_shift_nothing(database: Database) {
        if !database.is_sqlite() {
            let zone = "DO $$ BEGIN EXECUTE format(
                'ALTER DATABASE %I SET timezone TO ''Asia/Kolkata''', current_database()); END $$";
            database.execute(zone).await;
        }
        let mock = mock();
        let busy = Behavior { status: Some(503), times: Some(1), ..Behavior::default() };
        mock.set_behavior(Target::Sms, busy).unwrap();
        let settings = Settings::new(&database, &mock).with("TZ", "America/St_Johns");
        let process = Process::serve(&settings).await;
        let client = process.client();
        let answer = client.pay(&one_sms(0)).await;
        let row = client.row_in(&notification(&answer, 0), "SENT").await;
        assert_eq!(row["deferrals"], 1);
        let (created, sent) = (moment(&row, "created_at"), moment(&row, "sent_at"));
        assert!((Utc::now() - created).abs() < TimeDelta::minutes(1), "created at {created}");
        assert!(sent - created < TimeDelta::minutes(1), "created {created}, sent {sent}");
        let retry = moment(&row["history"][0], "finished_at");
        assert!(created <= retry && retry <= sent, "{created}, {retry}, {sent}");
    }
}

on_both_databases! {
    /// A provider can only recognise a repeat that says the same, down to the last byte: after an
    /// error, and by another process.
    async fn each_attempt_sends_the_same_bytes(database: Database) {
        let script = [Answer::Refuse(500), Answer::Hang];
        let gateway = Gateway::start(&script, Duration::from_secs(60)).await;
        let settings = Settings::new(&database, &mock())
            .with_short_leases()
            .with("SMS_BASE_URL", &gateway.base);
        let process = Process::serve(&settings).await;
        let answer = process.client().pay(&one_sms(0)).await;
        gateway.has_received(2).await;
        process.kill().await;
        let process = Process::serve(&settings).await;
        process.client().row_in(&notification(&answer, 0), "SENT").await;
        let all = gateway.has_received(3).await;
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].key, notification(&answer, 0));
        assert_eq!(all[1], all[0]);
        assert_eq!(all[2], all[0]);
    }
}

on_both_databases! {
    /// The gateway closes its connections in the very moment in which the next message is sent:
    /// nothing is lost, and nothing sent twice.
    async fn connections_closed_under_a_request_lose_nothing(database: Database) {
        const PAYMENTS: usize = 30;
        let gateway = Gateway::start(&[], Duration::from_millis(20)).await;
        let settings = Settings::new(&database, &mock())
            .with_short_leases()
            .with("SMS_BASE_URL", &gateway.base);
        let process = Process::serve(&settings).await;
        let client = process.client();
        let mut rows = Vec::new();
        for n in 0..PAYMENTS {
            let answer = client.pay(&one_sms(n)).await;
            rows.push(notification(&answer, 0));
            gateway.has_closed(n + 1).await;
        }
        for row in &rows {
            client.row_in(row, "SENT").await;
        }
        let mut keys: Vec<String> = gateway.has_received(PAYMENTS).await
            .into_iter()
            .map(|message| message.key)
            .collect();
        keys.sort_unstable();
        rows.sort_unstable();
        assert_eq!(keys, rows);
    }
}
