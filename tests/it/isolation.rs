//! A provider that hangs or is slow is nobody else's trouble: not the payer's, not the other
//! channel's.
//!
//! `PAYBELL_TEST_SCALE=full` posts as many payments as the service promises to stand, and holds it
//! to the 99th percentile; otherwise to the median, which a busy machine does not blur.

use std::collections::HashMap;
use std::time::Duration;

use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, Fault, RunningMock, Target};
use serde_json::json;

use crate::support::app::{Settings, payment, sms};
use crate::support::load::{
    Posted, all_sent, assert_once_each, figures, mock, one_sms, percentile, post_many, post_one,
    size, sms_and_push,
};
use crate::support::on_both_databases;
use crate::support::process::Process;

fn hang(mock: &RunningMock, target: Target) {
    let hanging = Behavior {
        fault: Some(Fault::Hang),
        ..Behavior::default()
    };
    mock.set_behavior(target, hanging).unwrap();
}

on_both_databases! {
    /// POST takes as long with providers that hang as with healthy ones. Both services run side by
    /// side and take turns, so that whatever else the machine does hits both.
    async fn hanging_providers_do_not_slow_posts(database: Database) {
        let (healthy, hanging) = (mock(), mock());
        hang(&hanging, Target::Sms);
        hang(&hanging, Target::Fcm);
        let other = database.another().await;
        let a = Process::serve(&Settings::new(&database, &healthy)).await;
        let b = Process::serve(&Settings::new(&other, &hanging)).await;
        let (a, b) = (a.client(), b.client());
        let (mut with_healthy, mut with_hanging) = (Vec::new(), Vec::new());
        // The first requests open connections.
        let n = size(300, 2000) + 20;
        for i in 0..n {
            let body = sms_and_push(i);
            with_healthy.push(post_one(&a, &body).await.took);
            with_hanging.push(post_one(&b, &body).await.took);
        }
        let percent = size(50, 99);
        let at = |times: &[Duration]| percentile(times[20..].iter().copied(), percent);
        let (healthy_takes, hanging_takes) = (at(&with_healthy), at(&with_hanging));
        let bound = (healthy_takes * 3 / 2).max(healthy_takes + Duration::from_millis(2));
        figures(&format!("percentile {percent}: healthy {healthy_takes:?}, hanging {hanging_takes:?}"));
        assert!(hanging_takes <= bound, "{hanging_takes:?} with hanging ones, {healthy_takes:?} else");
    }
}

on_both_databases! {
    /// Pushes arrive within a second of their POST while every SMS hangs.
    async fn a_hanging_sms_gateway_holds_up_no_push(database: Database) {
        let mock = mock();
        hang(&mock, Target::Sms);
        let process = Process::serve(&Settings::new(&database, &mock)).await;
        let n = size(200, 500);
        let posted = post_many(&[process.client()], n, 8, sms_and_push).await;
        let pushes = mock.wait_for(n, Duration::from_secs(5)).await.expect("not all pushes arrived");
        assert_once_each(&mock, &posted, Channel::Fcm);
        let began: HashMap<String, _> = posted
            .iter()
            .flat_map(|post| post.ids(Channel::Fcm).into_iter().map(|id| (id, post.began)))
            .collect();
        let took = pushes
            .iter()
            .map(|push| (push.received_at - began[&push.data["outbox_id"]]).to_std().unwrap());
        let slowest = took.max().unwrap();
        figures(&format!("{n} pushes, the slowest after {slowest:?}"));
        assert!(slowest < Duration::from_secs(1), "the slowest push took {slowest:?}");
    }
}

on_both_databases! {
    /// More payments at once than the queue holds: all are answered 201 before the slow provider is
    /// through, and all are delivered.
    async fn a_full_queue_delays_no_post_and_loses_nothing(database: Database) {
        const N: usize = 200;
        let mock = mock();
        let slow = Behavior { latency_ms: 200, ..Behavior::default() };
        mock.set_behavior(Target::Sms, slow).unwrap();
        let settings = Settings::new(&database, &mock)
            .with("OUTBOX_QUEUE_CAPACITY", 10)
            .with("OUTBOX_MAX_IN_FLIGHT", 20);
        let process = Process::serve(&settings).await;
        let posted = post_many(&[process.client()], N, N, one_sms).await;
        let early = mock.messages().len();
        assert!(early < N, "the provider was through first: it was not slow enough");
        all_sent(&database, Duration::from_secs(20)).await;
        assert_once_each(&mock, &posted, Channel::Sms);
    }
}

on_both_databases! {
    /// A payment to both channels of which one hangs is answered at once, and only the healthy one
    /// is SENT: what is queued is not sent.
    async fn only_what_was_accepted_is_sent(database: Database) {
        let mock = mock();
        hang(&mock, Target::Sms);
        let process = Process::serve(&Settings::new(&database, &mock)).await;
        let client = process.client();
        let both = json!([
            { "channel": "sms", "to": "010-1234-5678" },
            { "channel": "fcm", "to": "a-token" },
        ]);
        let Posted { answer, .. } = post_one(&client, &payment("order-1", &both)).await;
        let id = |n| crate::support::app::notification(&answer, n);
        client.row_in(&id(1), "SENT").await;
        assert_eq!(client.row(&id(0)).await["status"], "PENDING");
        drop(client.pay(&sms("order-2", "010-1234-5679")).await);
        let rows = client.admin("/admin/outbox?status=SENT").await;
        assert_eq!(rows["items"].as_array().unwrap().len(), 1);
    }
}
