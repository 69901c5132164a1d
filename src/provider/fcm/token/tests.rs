#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use secrecy::ExposeSecret;
use tokio::time::{advance, sleep};

use super::*;

/// A token endpoint that counts, and does as it is told.
#[derive(Clone, Default)]
struct Endpoint {
    calls: Arc<AtomicUsize>,
    orders: Arc<Mutex<Orders>>,
    panics: Arc<AtomicBool>,
}

#[derive(Clone, Default)]
struct Orders {
    life: Duration,
    latency: Duration,
    error: Option<TokenError>,
}

#[async_trait]
impl Exchange for Endpoint {
    async fn exchange(&self) -> Result<Grant, TokenError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let orders = self.orders.lock().unwrap().clone();
        sleep(orders.latency).await;
        assert!(!self.panics.load(Ordering::SeqCst), "as ordered");
        match orders.error {
            Some(error) => Err(error),
            None => Ok(Grant {
                token: format!("token-{call}").into(),
                life: orders.life,
            }),
        }
    }
}

impl Endpoint {
    fn with_life(life: Duration) -> Self {
        let endpoint = Self::default();
        endpoint.order(|orders| orders.life = life);
        endpoint
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap());
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn tokens(&self) -> Arc<Tokens> {
        Arc::new(Tokens::new(self.clone()))
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Far off.
fn latest() -> Instant {
    Instant::now() + HOUR
}

async fn get(tokens: &Tokens) -> Result<String, TokenError> {
    let token = tokens.get(latest()).await?;
    Ok(token.secret.expose_secret().to_owned())
}

/// What 200 concurrent calls come to.
async fn two_hundred<F>(call: impl Fn() -> F) -> Vec<Result<Arc<Token>, TokenError>>
where
    F: Future<Output = Result<Arc<Token>, TokenError>> + Send + 'static,
{
    let all: Vec<_> = (0..200).map(|_| tokio::spawn(call())).collect();
    let mut results = Vec::new();
    for one in all {
        results.push(one.await.unwrap());
    }
    results
}

fn all_are(results: Vec<Result<Arc<Token>, TokenError>>, expected: &str) {
    for result in results {
        assert_eq!(result.unwrap().secret.expose_secret(), expected);
    }
}

fn down() -> TokenError {
    TokenError::unavailable("down".to_owned())
}

fn refused() -> TokenError {
    TokenError::Refused {
        http_status: Some(400),
        text: "invalid_grant".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_sends_across_the_end_of_a_token_ask_once() {
    let endpoint = Endpoint::with_life(secs(10));
    endpoint.order(|orders| orders.latency = secs(1));
    let tokens = endpoint.tokens();
    let ask = || {
        let tokens = Arc::clone(&tokens);
        async move { tokens.get(latest()).await }
    };
    all_are(two_hundred(ask).await, "token-1");
    assert_eq!(endpoint.calls(), 1);
    advance(secs(10)).await;
    all_are(two_hundred(ask).await, "token-2");
    assert_eq!(endpoint.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_renewal_while_the_old_token_lives() {
    let endpoint = Endpoint::with_life(HOUR);
    let tokens = endpoint.tokens();
    get(&tokens).await.unwrap();
    advance(HOUR - MARGIN - JITTER - secs(1)).await;
    assert_eq!(get(&tokens).await.unwrap(), "token-1");
    assert_eq!(endpoint.calls(), 1);

    endpoint.order(|orders| orders.latency = secs(30));
    advance(2 * JITTER + secs(2)).await;
    let before = Instant::now();
    let ask = || {
        let tokens = Arc::clone(&tokens);
        async move { tokens.get(latest()).await }
    };
    all_are(two_hundred(ask).await, "token-1");
    assert_eq!(before.elapsed(), Duration::ZERO);
    sleep(secs(31)).await;
    all_are(two_hundred(ask).await, "token-2");
    assert_eq!(endpoint.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_fails_no_send_while_the_old_token_lives() {
    let endpoint = Endpoint::with_life(HOUR);
    let tokens = endpoint.tokens();
    get(&tokens).await.unwrap();
    advance(HOUR - secs(60)).await;
    endpoint.order(|orders| orders.error = Some(down()));
    for _ in 0..500 {
        assert_eq!(get(&tokens).await.unwrap(), "token-1");
        sleep(Duration::from_millis(10)).await;
    }
    // At 0, 1 and 3 seconds.
    assert_eq!(endpoint.calls(), 1 + 3);
    endpoint.order(|orders| orders.error = None);
    sleep(MAX_PAUSE).await;
    get(&tokens).await.unwrap();
    sleep(secs(1)).await;
    assert_eq!(get(&tokens).await.unwrap(), "token-5");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_during_a_short_pause_and_then_forgotten() {
    for error in [down(), refused()] {
        let endpoint = Endpoint::with_life(HOUR);
        endpoint.order(|orders| orders.error = Some(error.clone()));
        let tokens = endpoint.tokens();
        assert_eq!(get(&tokens).await.unwrap_err(), error);
        sleep(Duration::from_millis(400)).await;
        let told = get(&tokens).await.unwrap_err();
        let rest = Duration::from_millis(600);
        assert_eq!(told, error.clone().with_wait(rest));
        assert_eq!(endpoint.calls(), 1);

        endpoint.order(|orders| orders.error = None);
        sleep(rest).await;
        assert_eq!(get(&tokens).await.unwrap(), "token-2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_endpoint_is_asked_ever_less_often() {
    let endpoint = Endpoint::with_life(HOUR);
    endpoint.order(|orders| orders.error = Some(down()));
    let tokens = endpoint.tokens();
    for _ in 0..600 {
        get(&tokens).await.unwrap_err();
        sleep(Duration::from_millis(100)).await;
    }
    // At 0, 1, 3, 7, 15, 23, 31, 39, 47 and 55 seconds.
    assert_eq!(endpoint.calls(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_be_left_alone_is_followed_within_reason() {
    for (wish, pause) in [(30, secs(30)), (86_400, MAX_WISHED_PAUSE)] {
        let endpoint = Endpoint::with_life(HOUR);
        let error = down().with_wait(secs(wish));
        endpoint.order(|orders| orders.error = Some(error));
        let tokens = endpoint.tokens();
        get(&tokens).await.unwrap_err();
        sleep(pause - Duration::from_millis(2)).await;
        get(&tokens).await.unwrap_err();
        assert_eq!(endpoint.calls(), 1);
        sleep(Duration::from_millis(4)).await;
        get(&tokens).await.unwrap_err();
        assert_eq!(endpoint.calls(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_with_less_life_than_the_margin_is_used() {
    let endpoint = Endpoint::with_life(secs(1));
    let tokens = endpoint.tokens();
    for _ in 0..7 {
        assert_eq!(get(&tokens).await.unwrap(), "token-1");
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_millis(300)).await;
    assert_eq!(get(&tokens).await.unwrap(), "token-2");
    assert_eq!(endpoint.calls(), 2);

    // Even one that was over before it came.
    endpoint.order(|orders| orders.latency = secs(2));
    sleep(secs(1)).await;
    assert_eq!(get(&tokens).await.unwrap(), "token-3");
    assert_eq!(get(&tokens).await.unwrap(), "token-4");
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_wait_leaves_and_the_renewal_goes_on() {
    let endpoint = Endpoint::with_life(HOUR);
    endpoint.order(|orders| orders.latency = secs(8));
    let tokens = endpoint.tokens();
    let hasty = tokens.get(Instant::now() + secs(3)).await;
    assert_eq!(hasty.unwrap_err(), TokenError::TooLate);
    let before = Instant::now();
    assert_eq!(get(&tokens).await.unwrap(), "token-1");
    let waited = before.elapsed();
    assert!((secs(4)..=secs(5)).contains(&waited), "{waited:?}");
    assert_eq!(endpoint.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_once_for_all() {
    let endpoint = Endpoint::with_life(HOUR);
    endpoint.order(|orders| orders.latency = secs(1));
    let tokens = endpoint.tokens();
    let replaced = async |refused: &Arc<Token>| {
        let results = two_hundred(|| {
            let (tokens, refused) = (Arc::clone(&tokens), Arc::clone(refused));
            async move { tokens.replace(&refused, latest()).await }
        });
        results.await
    };
    let first = tokens.get(latest()).await.unwrap();
    all_are(replaced(&first).await, "token-2");
    assert_eq!(endpoint.calls(), 2);
    // A straggler gets what came since.
    all_are(replaced(&first).await, "token-2");

    // The new one is refused, too: another would fare no better.
    let second = tokens.get(latest()).await.unwrap();
    for result in replaced(&second).await {
        assert_eq!(result.unwrap_err(), TokenError::JustReplaced);
    }
    assert_eq!(get(&tokens).await.unwrap(), "token-2");
    assert_eq!(endpoint.calls(), 2);
    sleep(REPLACE_INTERVAL).await;
    all_are(replaced(&second).await, "token-3");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ended_on_its_way_does_not_count_as_refused() {
    let endpoint = Endpoint::with_life(secs(1));
    let tokens = endpoint.tokens();
    for n in 1..5 {
        let token = tokens.get(latest()).await.unwrap();
        advance(secs(1)).await;
        let next = tokens.replace(&token, latest()).await.unwrap();
        assert_eq!(next.secret.expose_secret(), format!("token-{}", n + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_not_used_again_when_there_is_no_other() {
    let endpoint = Endpoint::with_life(HOUR);
    let tokens = endpoint.tokens();
    let first = tokens.get(latest()).await.unwrap();
    endpoint.order(|orders| orders.error = Some(refused()));
    assert_eq!(
        tokens.replace(&first, latest()).await.unwrap_err(),
        refused()
    );
    assert_eq!(get(&tokens).await.unwrap_err(), refused());
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_like_another() {
    let endpoint = Endpoint::with_life(HOUR);
    endpoint.panics.store(true, Ordering::SeqCst);
    let tokens = endpoint.tokens();
    assert_eq!(get(&tokens).await.unwrap_err(), TokenError::broken());
    endpoint.panics.store(false, Ordering::SeqCst);
    sleep(FIRST_PAUSE).await;
    assert_eq!(get(&tokens).await.unwrap(), "token-2");
}

#[test]
fn renewals_are_spread_and_always_before_the_end() {
    let table = [
        (3_600, 0.0, secs(3_360)),
        (3_600, 0.5, secs(3_300)),
        (3_600, 1.0, secs(3_240)),
        (400, 0.0, secs(300)),
        (4, 1.0, secs(3)),
        (0, 0.5, secs(0)),
    ];
    for (life, jitter, expected) in table {
        assert_eq!(
            renewal_after(secs(life), jitter),
            expected,
            "{life} {jitter}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn debug_output_holds_no_token() {
    let tokens = Endpoint::with_life(HOUR).tokens();
    let token = tokens.get(latest()).await.unwrap();
    let debug = format!("{token:?}");
    assert!(!debug.contains("token-1"), "{debug}");
}

#[test]
fn every_error_has_its_outcome() {
    let redactor = Redactor::default();
    let outcome = |error: TokenError| error.outcome(&redactor);
    let answer = |http_status, text: &str| Answer {
        http_status,
        text: text.to_owned(),
    };
    let table = [
        (
            refused(),
            Outcome::Misconfigured {
                answer: answer(Some(400), "no access token: invalid_grant"),
            },
        ),
        (
            down().with_wait(secs(3)),
            Outcome::Deferred {
                retry_after: Some(secs(3)),
                answer: answer(None, "no access token: down"),
            },
        ),
        (
            TokenError::TooLate,
            Outcome::Deferred {
                retry_after: None,
                answer: answer(None, "no access token: none came in time for this send"),
            },
        ),
    ];
    for (error, expected) in table {
        assert_eq!(outcome(error), expected);
    }
}
