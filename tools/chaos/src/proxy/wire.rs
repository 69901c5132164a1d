//! PostgreSQL's protocol 3.0 as far as messages and their boundaries go.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use bytes::{Bytes, BytesMut};

/// Length of the field that says how long a message is; the field counts itself.
const LENGTH: usize = 4;

/// Far more than the product ever says at once: what claims more is not this protocol.
const LONGEST: usize = 256 * 1024 * 1024;

/// The codes of an opening packet that asks for encryption, and is followed by another opening packet.
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// One whole message, as it was on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its type; a client's opening packet has none.
    pub kind: Option<u8>,
    /// All of it, type and length included.
    pub bytes: Bytes,
}

/// What comes does not follow the protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that says it is {0} bytes long")]
pub struct NotThisProtocol(pub usize);

/// Bytes as they come, to be taken out message by message.
#[derive(Debug)]
pub struct Messages {
    unread: BytesMut,
    opening: bool,
}

impl Message {
    /// What follows type and length.
    pub fn body(&self) -> &[u8] {
        let header = LENGTH + usize::from(self.kind.is_some());
        self.bytes.get(header..).unwrap_or_default()
    }

    /// Whether it asks for an encrypted connection.
    pub fn asks_for_encryption(&self) -> bool {
        let code = self.body().first_chunk().copied().map(u32::from_be_bytes);
        self.kind.is_none() && matches!(code, Some(SSL_REQUEST | GSS_REQUEST))
    }

    /// The zero-terminated text that the body begins with, and what follows it.
    pub fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => {
                let (text, rest) = bytes.split_at(end);
                (text, rest.get(1..).unwrap_or_default())
            }
            None => (bytes, &[]),
        }
    }
}

impl Messages {
    /// Those of a client, which begins with a packet that has no type.
    pub fn of_client() -> Self {
        Self {
            unread: BytesMut::new(),
            opening: true,
        }
    }

    /// Those of a server.
    pub fn of_server() -> Self {
        Self {
            unread: BytesMut::new(),
            opening: false,
        }
    }

    /// Where the next bytes go.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.unread
    }

    /// The next message, once all of it is there.
    ///
    /// # Errors
    /// When its length cannot be true.
    pub fn take(&mut self) -> Result<Option<Message>, NotThisProtocol> {
        let typed = usize::from(!self.opening);
        let Some(length) = self.unread.get(typed..).and_then(|rest| rest.first_chunk()) else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if !(LENGTH..=LONGEST).contains(&length) {
            return Err(NotThisProtocol(length));
        }
        if self.unread.len() < typed + length {
            return Ok(None);
        }
        let bytes = self.unread.split_to(typed + length).freeze();
        let kind = if self.opening {
            None
        } else {
            bytes.first().copied()
        };
        let message = Message { kind, bytes };
        self.opening = self.opening && message.asks_for_encryption();
        Ok(Some(message))
    }
}
