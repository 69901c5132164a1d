//! Ends a connection the hard way: a TCP reset in place of an answer.

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};

/// A second handle of the connection's socket.
#[cfg(unix)]
struct Socket(std::os::fd::OwnedFd);

/// Keeps a handle of each connection's socket within reach of its requests.
#[cfg(unix)]
pub(super) fn remember(connection: &dyn Any, extensions: &mut Extensions) {
    use std::os::fd::AsFd;

    let Some(stream) = connection.downcast_ref::<TcpStream>() else {
        return;
    };
    // Without a handle the connection is closed instead of reset: as abrupt, only politer.
    if let Ok(socket) = stream.as_fd().try_clone_to_owned() {
        extensions.insert(Socket(socket));
    }
}

/// Elsewhere a connection is closed instead of reset: as abrupt, only politer.
#[cfg(not(unix))]
pub(super) fn remember(_connection: &dyn Any, _extensions: &mut Extensions) {}

/// An answer that sends no byte and drops the connection.
pub(super) fn respond(request: &HttpRequest) -> HttpResponse {
    if let Err(error) = discard_on_close(request) {
        tracing::debug!(%error, "the connection is closed instead of reset");
    }
    HttpResponse::Ok().body(Broken)
}

/// Makes the socket's close a reset: nothing waits to be sent.
#[cfg(unix)]
fn discard_on_close(request: &HttpRequest) -> std::io::Result<()> {
    let Some(Socket(socket)) = request.conn_data() else {
        return Ok(());
    };
    let stream = std::net::TcpStream::from(socket.try_clone()?);
    TcpStream::from_std(stream)?.set_zero_linger()
}

#[cfg(not(unix))]
fn discard_on_close(_request: &HttpRequest) -> std::io::Result<()> {
    Ok(())
}

/// A body that fails at once. The server then drops the connection together with the head that it
/// had not written yet.
struct Broken;

impl MessageBody for Broken {
    type Error = std::io::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let asked_for = std::io::Error::other("a reset was asked for");
        Poll::Ready(Some(Err(asked_for)))
    }
}
