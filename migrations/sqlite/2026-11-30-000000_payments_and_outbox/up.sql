-- Moments are microseconds since 1970-01-01T00:00:00Z; text would compare wrongly in mixed shapes.
--
-- Status, channel and event type carry no CHECK: the types in the code are the check, and a row
-- that a newer version wrote must survive an older instance.

CREATE TABLE payments (
    id                 blob NOT NULL PRIMARY KEY,
    client             text NOT NULL,
    order_id           text NOT NULL,
    amount             bigint NOT NULL,
    currency           text NOT NULL,
    status             text NOT NULL,
    description        text,
    locale             text,
    idempotency_key    text,
    -- SHA-256 of the request's meaning: tells a repeat from another request under the same key.
    fingerprint        blob,
    -- The bytes of the first answer, given again to every repeat.
    response           blob NOT NULL,
    notification_count integer NOT NULL,
    created_at         bigint NOT NULL
);

-- A key names one payment of its client for as long as the payment stays.
CREATE UNIQUE INDEX payments_idempotency ON payments (client, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE INDEX payments_order ON payments (client, order_id, id);

CREATE TABLE outbox (
    id                  blob NOT NULL PRIMARY KEY,
    payment_id          blob NOT NULL REFERENCES payments (id),
    event_type          text NOT NULL,
    channel             text NOT NULL,
    provider            text NOT NULL,
    recipient           text NOT NULL,
    -- JSON exactly as it is sent: text, so that no database reorders it between two attempts.
    payload             text NOT NULL,
    payload_version     integer NOT NULL,
    reference           text NOT NULL,
    status              text NOT NULL,
    reason              text,
    attempts            integer NOT NULL,
    deferrals           integer NOT NULL,
    lost_leases         integer NOT NULL,
    replays             integer NOT NULL,
    epoch               bigint NOT NULL,
    claimed_by          blob,
    maybe_sent          boolean NOT NULL,
    processable_after   bigint NOT NULL,
    next_retry_at       bigint,
    expires_at          bigint NOT NULL,
    last_error          text,
    provider_message_id text,
    trace_context       text,
    created_at          bigint NOT NULL,
    updated_at          bigint NOT NULL,
    sent_at             bigint
);

CREATE INDEX outbox_payment ON outbox (payment_id);

-- One message at the provider belongs to one row: a look-up cannot find another row's.
CREATE UNIQUE INDEX outbox_provider_message ON outbox (provider, provider_message_id)
    WHERE provider_message_id IS NOT NULL;

-- Drives the claim.
CREATE INDEX outbox_due ON outbox (channel, processable_after) WHERE status = 'PENDING';

-- Rows whose holders keep dying are claimed one at a time, apart from the others.
CREATE INDEX outbox_suspect ON outbox (channel, processable_after)
    WHERE status = 'PENDING' AND lost_leases >= 2;

-- Drives retention.
CREATE INDEX outbox_removable ON outbox (updated_at) WHERE status IN ('SENT', 'CANCELED');

-- Dead letters: listed and replayed by operators, few beside the rest.
CREATE INDEX outbox_dead ON outbox (status, id) WHERE status IN ('FAILED', 'CANCELED');

CREATE TABLE attempts (
    outbox_id           blob NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    epoch               bigint NOT NULL,
    attempt             integer NOT NULL,
    started_at          bigint NOT NULL,
    finished_at         bigint NOT NULL,
    outcome             text NOT NULL,
    http_status         integer,
    error               text,
    provider            text NOT NULL,
    provider_message_id text,
    times               integer NOT NULL,
    PRIMARY KEY (outbox_id, epoch)
) WITHOUT ROWID;

-- Deferrals are one entry a row, counted up.
CREATE UNIQUE INDEX attempts_deferred ON attempts (outbox_id) WHERE outcome = 'deferred';

-- Totals that outlive the rows they count, so that the books balance after a purge.
CREATE TABLE totals (
    name  text NOT NULL PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO totals (name, value) VALUES ('purged', 0);
