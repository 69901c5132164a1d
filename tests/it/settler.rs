//! The settler and a message that two rows claim: each row ends with a message of its own, or comes
//! back for one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use paybell::config::{Config, Env};
use paybell::metrics::Metrics;
use paybell::outbox::Running;
use paybell::outbox::held::Holdings;
use paybell::outbox::settler::{Job, Settler};
use paybell::payment::{Channel, Happening, Status};
use paybell::provider::mock::Mock;
use paybell::provider::{Answer, LookUp, Message, Outcome, Provider};
use paybell::store::{HeldRow, HistoryEntry, Settlement, Store};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::app::Settings;

use crate::support::books::{Books, LEASE, claim, settlement};
use crate::support::database::Database;
use crate::support::load::{all_sent, nobodys_address};
use crate::support::on_both_databases;
use crate::support::wait::until;

/// The id that both rows name.
const MESSAGE: &str = "m-1";

/// Two rows in one instance's hands, to one recipient.
struct Two {
    books: Books,
    me: Uuid,
    first: HeldRow,
    second: HeldRow,
}

impl Two {
    async fn held(database: Database) -> Self {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let first = books.held_row(me).await;
        let second = books.held_row(me).await;
        Self {
            books,
            me,
            first,
            second,
        }
    }

    /// The first row has the message.
    async fn first_has_it(&self, outcome: Happening) {
        let settled = self
            .books
            .settle(self.me, &[sent(&self.first, outcome)])
            .await;
        assert_eq!(settled, [self.first.id.0]);
    }

    /// Has the settler write that the second has it too.
    async fn second_wants_it(&self, wish: Settlement) {
        let (settler, jobs) = Settler::new(self.books.store.clone(), self.me, Metrics::new());
        let held = Arc::new(Holdings::default()).hold(self.second.clone(), Instant::now() + LEASE);
        let job = Job {
            held,
            settlement: Some(Box::new(wish)),
            permit: None,
        };
        jobs.send(job).unwrap();
        drop(jobs);
        settler.run().await;
    }

    async fn second_comes_back(&self, attempts: i32) {
        let attempts = format!("attempts = {attempts}");
        let waits = [
            "status = 'PENDING'",
            "maybe_sent",
            "claimed_by IS NULL",
            "provider_message_id IS NULL",
            "sent_at IS NULL",
            &attempts,
        ];
        self.books.assert_row(self.second.id.0, &waits).await;
        let kept = ["status = 'SENT'", "provider_message_id = 'm-1'"];
        self.books.assert_row(self.first.id.0, &kept).await;
    }

    async fn second_is_sent_without_it(&self) {
        let sent = [
            "status = 'SENT'",
            "provider_message_id IS NULL",
            "last_error = 'the provider gave its id twice'",
        ];
        self.books.assert_row(self.second.id.0, &sent).await;
    }
}

/// The row has [`MESSAGE`].
fn sent(row: &HeldRow, outcome: Happening) -> Settlement {
    let answered = outcome == Happening::Accepted;
    Settlement {
        attempts: row.attempts + i32::from(answered),
        maybe_sent: false,
        provider_message_id: Some(MESSAGE.to_owned()),
        by_likeness: !answered,
        history: Some(HistoryEntry {
            outcome,
            attempt: row.attempts + i32::from(answered),
            started_ago: Duration::from_millis(20),
            finished_ago: Duration::ZERO,
            http_status: None,
            error: None,
            provider: row.provider.clone(),
            provider_message_id: Some(MESSAGE.to_owned()),
        }),
        ..settlement(row, Status::Sent)
    }
}

on_both_databases! {
    /// Two asked at once and were told of the same message: the later to write asks again.
    async fn a_find_that_another_found_first_asks_again(database: Database) {
        let two = Two::held(database).await;
        two.first_has_it(Happening::FoundOnLookup).await;
        let wish = sent(&two.second, Happening::FoundOnLookup);
        two.second_wants_it(wish).await;
        two.second_comes_back(0).await;
    }
}

on_both_databases! {
    /// A row that reads the same asked in the instant between the acceptance and its writing, and
    /// took the message for its own: the row that sent it is owed another.
    async fn an_acceptance_whose_message_a_twin_found_asks_again(database: Database) {
        let two = Two::held(database).await;
        two.first_has_it(Happening::FoundOnLookup).await;
        let wish = sent(&two.second, Happening::Accepted);
        two.second_wants_it(wish).await;
        two.second_comes_back(1).await;
    }
}

on_both_databases! {
    /// A first acceptance has no history of its own; it gives way all the same.
    async fn a_first_acceptance_gives_way_to_a_twin_too(database: Database) {
        let two = Two::held(database).await;
        two.first_has_it(Happening::FoundOnLookup).await;
        let wish = Settlement { history: None, ..sent(&two.second, Happening::Accepted) };
        two.second_wants_it(wish).await;
        two.second_comes_back(1).await;
    }
}

on_both_databases! {
    /// A provider that gives an id twice is not asked for ever: the acceptance stands without it.
    async fn an_id_given_twice_is_written_once(database: Database) {
        let two = Two::held(database).await;
        two.first_has_it(Happening::Accepted).await;
        let wish = sent(&two.second, Happening::Accepted);
        two.second_wants_it(wish).await;
        two.second_is_sent_without_it().await;
    }
}

on_both_databases! {
    /// What was found before this row was recorded cannot be the answer to its request.
    async fn an_id_found_before_the_row_was_recorded_is_an_id_given_twice(database: Database) {
        let two = Two::held(database).await;
        two.first_has_it(Happening::FoundOnLookup).await;
        let later = format!("created_at = {}", two.books.now(1));
        two.books.set(two.second.id.0, &later).await;
        let wish = sent(&two.second, Happening::Accepted);
        two.second_wants_it(wish).await;
        two.second_is_sent_without_it().await;
    }
}

on_both_databases! {
    /// An acceptance is a fact, also on a row that another has claimed since. When that other has
    /// sent it too, the history says so; when it only found the message, there is nothing to say.
    async fn a_row_sent_as_two_messages_says_so(database: Database) {
        let books = Books::open(database).await;
        for (others_message, told) in [("m-2", 1), (MESSAGE, 0)] {
            let (early, late) = (Uuid::new_v4(), Uuid::new_v4());
            let first = books.held_row(early).await;
            books.set(first.id.0, &format!("processable_after = {}", books.now(-1))).await;
            let again = books.store.claim(claim(late)).await.unwrap().pop().unwrap();
            let settled = books.settle(early, &[sent(&first, Happening::Accepted)]).await;
            assert_eq!(settled, [first.id.0]);
            let (settler, jobs) = Settler::new(books.store.clone(), late, Metrics::new());
            let wish = Settlement {
                provider_message_id: Some(others_message.to_owned()),
                ..sent(&again, Happening::Accepted)
            };
            let held = Arc::new(Holdings::default()).hold(again, Instant::now() + LEASE);
            jobs.send(Job { held, settlement: Some(Box::new(wish)), permit: None }).unwrap();
            drop(jobs);
            settler.run().await;
            let row = first.id.0;
            assert_eq!(books.entries(row, "outcome = 'lease_lost' AND epoch = 2").await, told);
            books.assert_row(row, &["status = 'SENT'", "provider_message_id = 'm-1'"]).await;
            books.set(row, "provider_message_id = NULL").await;
        }
    }
}

/// Keeps no references, only a list. It loses its first request, and answers the second, which it
/// took, when it is let.
struct ListsOnly {
    calls: AtomicUsize,
    taken: Mutex<Vec<String>>,
    may_answer: Semaphore,
}

#[async_trait]
impl Provider for ListsOnly {
    fn name(&self) -> &'static str {
        "http"
    }

    async fn send(&self, _: &Message) -> Outcome {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if call == 0 {
            return Outcome::Unknown {
                retry_after: None,
                answer: Answer::default(),
            };
        }
        let id = format!("m-{call}");
        self.taken.lock().unwrap().push(id.clone());
        let _let_through = self.may_answer.acquire().await.unwrap();
        Outcome::Accepted {
            provider_message_id: Some(id),
        }
    }

    async fn look_up(&self, _: &Message) -> LookUp {
        let provider_message_ids = self.taken.lock().unwrap().clone();
        match provider_message_ids.is_empty() {
            true => LookUp::NeverSeen,
            false => LookUp::Candidates {
                provider_message_ids,
            },
        }
    }
}

on_both_databases! {
    /// The same through the whole engine: as many messages as rows, each row with its own.
    async fn twins_get_two_messages_although_one_found_the_others(database: Database) {
        let books = Books::open(database).await;
        books.due_row().await;
        books.due_row().await;
        let settings = Settings::new(&books.database, &Mock::start(nobodys_address()).unwrap())
            .with("PROVIDER_TIMEOUT_MS", 1000)
            .with("OUTBOX_LEASE_SECS", 30);
        let env: Env = settings.0.into_iter().collect();
        let config = Config::from_env(&env).unwrap();
        let store = Store::open(&config.database).await.unwrap();
        let provider = Arc::new(ListsOnly {
            calls: AtomicUsize::new(0),
            taken: Mutex::default(),
            may_answer: Semaphore::new(0),
        });
        let providers: Vec<(Channel, Arc<dyn Provider>)> = vec![(Channel::Sms, provider.clone())];
        let running = Running::start(
            &store,
            &config.outbox,
            config.database.timeout,
            providers,
            &Metrics::new(),
        );
        until("one has found the other's", Duration::from_secs(10), async || {
            let found = "SELECT count(*) FROM outbox WHERE status = 'SENT' AND provider_message_id = 'm-1'";
            (books.database.number(found).await == 1).then_some(())
        })
        .await;
        provider.may_answer.add_permits(1);
        all_sent(&books.database, Duration::from_secs(10)).await;
        assert_eq!(*provider.taken.lock().unwrap(), ["m-1", "m-2"]);
        let ids = "SELECT count(DISTINCT provider_message_id) FROM outbox";
        assert_eq!(books.database.number(ids).await, 2);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        assert!(running.shut_down(deadline).await);
    }
}
