//! Routes, and the server that answers them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::dev::{Server as ActixServer, ServerHandle};
use actix_web::middleware::DefaultHeaders;
use actix_web::{App, HttpResponse, HttpServer, Resource, Route, guard, web};
use tracing_actix_web::TracingLogger;

use super::observe::RequestSpan;
use super::problem::Problem;
use super::state::AppState;
use super::{admin, health, payments, replay};

/// How long the head of a request may take; its body has as long again.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// An idle connection is kept this long: longer than the usual 60 s of a load balancer, so that it
/// is never closed under a request.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// The HTTP server, bound and ready to run.
pub struct Server {
    /// Where it listens.
    pub addr: SocketAddr,
    server: ActixServer,
}

/// Binds the server; port 0 takes a free one. It answers once [`Server::run`] is awaited.
///
/// # Errors
/// When the address cannot be bound, with the address.
pub fn bind(addr: SocketAddr, state: AppState, grace: Duration) -> io::Result<Server> {
    let listener = TcpListener::bind(addr).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}"))
    })?;
    let addr = listener.local_addr()?;
    let is_administered = state.admin_token.is_some();
    let state = web::Data::new(state);
    let server = HttpServer::new(move || {
        App::new()
            .app_data(state.clone())
            .wrap(DefaultHeaders::new().add(("Cache-Control", "no-store")))
            .wrap(TracingLogger::<RequestSpan>::new())
            .configure(routes)
            .configure(|config| {
                // Without a token there is nothing here, not even a 405 that names methods.
                if is_administered {
                    admin_routes(config);
                }
            })
            .default_service(web::to(nothing_here))
    })
    .client_request_timeout(HEAD_TIMEOUT)
    .keep_alive(KEEP_ALIVE)
    .shutdown_timeout(grace.as_secs().max(1))
    .disable_signals()
    .listen(listener)?
    .run();
    Ok(Server { addr, server })
}

impl Server {
    /// Stops it from elsewhere.
    pub fn handle(&self) -> ServerHandle {
        self.server.handle()
    }

    /// Answers requests until stopped.
    ///
    /// # Errors
    /// When the server breaks off.
    pub async fn run(self) -> io::Result<()> {
        self.server.await
    }
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            only("/payments", "GET, HEAD, POST")
                .route(web::post().to(payments::post))
                .route(read().to(payments::list)),
        )
        .service(only("/payments/{id}", "GET, HEAD").route(read().to(payments::get)))
        .service(only("/health/live", "GET, HEAD").route(read().to(health::live)))
        .service(only("/health/ready", "GET, HEAD").route(read().to(health::ready)))
        .service(only("/metrics", "GET, HEAD").route(read().to(health::metrics)));
}

fn admin_routes(config: &mut web::ServiceConfig) {
    config
        .service(only("/admin/outbox", "GET, HEAD").route(read().to(admin::list)))
        .service(only("/admin/outbox/stats", "GET, HEAD").route(read().to(admin::stats)))
        .service(only("/admin/outbox/replay", "POST").route(web::post().to(replay::replay_many)))
        .service(only("/admin/outbox/{id}", "GET, HEAD").route(read().to(admin::show)))
        .service(only("/admin/outbox/{id}/replay", "POST").route(web::post().to(replay::replay)))
        .service(only("/admin/outbox/{id}/cancel", "POST").route(web::post().to(replay::cancel)));
}

/// GET, and HEAD, which is GET without the body (RFC 9110, 9.3.2): the server leaves it out.
fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

/// A resource that names its methods to whoever uses another.
fn only(path: &'static str, allow: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move || async move {
        Err::<HttpResponse, _>(Problem::MethodNotAllowed {
            allow: allow.into(),
        })
    }))
}

async fn nothing_here() -> Result<HttpResponse, Problem> {
    Err(Problem::NotFound {
        detail: "there is nothing here".into(),
    })
}
