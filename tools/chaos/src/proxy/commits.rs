//! Finds, in a conversation with PostgreSQL, the replies that tell of a commit.

use std::collections::{HashMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::wire::Message;

/// The words that begin a change, in lower case. The recorder's own statement ends in a SELECT, so the
/// server's tag alone does not tell.
const CHANGES: [&str; 3] = ["insert into", "update ", "delete from"];

/// What only the statement says that takes due rows.
const CLAIM: &str = "skip locked";

/// A SELECT that only locks.
const LOCKS: [&str; 2] = ["for update", "for no key update"];

/// What to do with what the server says.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// Let it through.
    Pass(Bytes),
    /// Nothing yet: the reply is not complete.
    Wait,
    /// The reply tells that something was committed.
    Committed {
        /// The reply.
        bytes: Bytes,
        /// Whether rows were claimed.
        claim: bool,
    },
}

/// What the client has asked for up to one Sync, or in one simple query.
#[derive(Debug, Default, Clone, Copy)]
struct Exchange {
    changes: bool,
    claims: bool,
    ends_transaction: bool,
}

/// Both sides of one connection, as they were heard.
#[derive(Debug, Default)]
pub struct Conversation {
    statements: HashMap<Bytes, Exchange>,
    asking: Exchange,
    asked: VecDeque<Exchange>,
    /// From a change's CommandComplete on.
    held: BytesMut,
    done: bool,
}

impl Conversation {
    /// Hears a message of the client.
    pub fn client(&mut self, message: &Message) {
        let body = message.body();
        match message.kind {
            Some(b'Q') => {
                self.asking = Exchange::of(Message::text(body).0);
                self.asked.push_back(std::mem::take(&mut self.asking));
            }
            Some(b'P') => {
                let (name, rest) = Message::text(body);
                let statement = Exchange::of(Message::text(rest).0);
                self.statements
                    .insert(Bytes::copy_from_slice(name), statement);
            }
            Some(b'B') => {
                let (_portal, rest) = Message::text(body);
                if let Some(bound) = self.statements.get(Message::text(rest).0) {
                    self.asking.add(*bound);
                }
            }
            Some(b'S') => self.asked.push_back(std::mem::take(&mut self.asking)),
            _ => {}
        }
    }

    /// Hears a message of the server.
    pub fn server(&mut self, message: Message) -> Reply {
        match message.kind {
            Some(b'C') => self.complete(message),
            Some(b'E') => {
                self.done = false;
                self.release(message)
            }
            Some(b'Z') => self.ready(message),
            _ if self.held.is_empty() => Reply::Pass(message.bytes),
            _ => self.hold(&message),
        }
    }

    fn complete(&mut self, message: Message) -> Reply {
        let tag = Message::text(message.body()).0;
        let exchange = self.asked.front().copied().unwrap_or_default();
        let committed = tag == b"COMMIT" && exchange.ends_transaction;
        let changed = exchange.changes && !tag.ends_with(b" 0") && tag.contains(&b' ');
        self.done |= committed || changed;
        if self.done {
            self.hold(&message)
        } else {
            Reply::Pass(message.bytes)
        }
    }

    /// Only now is it certain: without a transaction around it, a change is committed after its
    /// CommandComplete, and that may still fail.
    fn ready(&mut self, message: Message) -> Reply {
        let exchange = self.asked.pop_front().unwrap_or_default();
        let idle = message.body() == b"I";
        let committed = std::mem::take(&mut self.done) && idle;
        match self.release(message) {
            Reply::Pass(bytes) if committed => Reply::Committed {
                bytes,
                claim: exchange.claims,
            },
            reply => reply,
        }
    }

    fn hold(&mut self, message: &Message) -> Reply {
        self.held.extend_from_slice(&message.bytes);
        Reply::Wait
    }

    fn release(&mut self, message: Message) -> Reply {
        if self.held.is_empty() {
            return Reply::Pass(message.bytes);
        }
        self.held.extend_from_slice(&message.bytes);
        Reply::Pass(self.held.split().freeze())
    }
}

impl Exchange {
    fn of(sql: &[u8]) -> Self {
        let mut sql = String::from_utf8_lossy(sql).to_lowercase();
        let ends_transaction = sql.trim_start().starts_with("commit");
        let claims = sql.contains(CLAIM);
        for lock in LOCKS {
            sql = sql.replace(lock, "");
        }
        Self {
            changes: CHANGES.iter().any(|change| sql.contains(change)),
            claims,
            ends_transaction,
        }
    }

    fn add(&mut self, other: Self) {
        self.changes |= other.changes;
        self.claims |= other.claims;
        self.ends_transaction |= other.ends_transaction;
    }
}
