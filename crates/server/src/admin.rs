//! Admin address: metrics for Prometheus, health for load balancers, figures for `linerate stat`. Served by a
//! housekeeping thread, never by a lane, and only for requests that use a name of the server.

mod connections;
mod host;
mod text;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::get;
use lane::runtime::LaneInfo;

pub(crate) use self::connections::{AdminCounters, CONNECTIONS_MAX};
use self::connections::{Listener, Local};
use crate::health::Health;
use crate::metrics::Blocks;
use crate::silo::Look;
use crate::stats::Snapshot;
use crate::usage::UsageGauges;
use crate::volumes::VolumeShown;

/// Sources of the admin address's answers: counters, health and memory.
#[derive(Clone)]
pub(crate) struct AdminSources {
    pub(crate) blocks: Blocks,
    pub(crate) lanes: Arc<[LaneInfo]>,
    pub(crate) started: SystemTime,
    /// Set when the server begins to drain: health turns to 503 so that no new client is sent here.
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) health: Arc<Health>,
    /// Requests for a look at the memory of lanes, made with those for figures.
    pub(crate) memory: Look,
    /// Volumes that the index knew when the control thread last looked.
    pub(crate) volumes: Arc<Mutex<Vec<VolumeShown>>>,
    /// Names by which the server may be asked, beside its address and loopback's.
    pub(crate) names: Arc<[String]>,
    pub(crate) counters: Arc<AdminCounters>,
}

impl AdminSources {
    fn volumes(&self) -> Vec<VolumeShown> {
        self.volumes.lock().expect("nothing panics while it holds them").clone()
    }
}

/// Serves the counters of lanes that another program than the server runs, such as a benchmark's, on a thread
/// of its own that ends with the process. `blocks` may still be added to.
///
/// # Errors
/// The system's, when `addr` cannot be listened at.
pub fn tell_of(
    addr: SocketAddr,
    blocks: Blocks,
    lanes: impl IntoIterator<Item = LaneInfo>,
) -> std::io::Result<SocketAddr> {
    let listener = bind(addr)?;
    let bound = listener.local_addr()?;
    let (lanes, draining) = (lanes.into_iter().collect(), Arc::default());
    let subject = AdminSources {
        blocks,
        lanes,
        started: SystemTime::now(),
        draining,
        health: Arc::default(),
        memory: Look::default(),
        volumes: Arc::default(),
        names: Arc::default(),
        counters: Arc::default(),
    };
    let housekeeping = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        let ended = housekeeping
            .block_on(async { serve(tokio::net::TcpListener::from_std(listener)?, subject).await });
        if let Err(error) = ended {
            //@ cause: The thread that serves metrics and health has ended with an error.
            //@ remedy: Restart the server to have them again. Files are served as ever.
            tracing::error!(
                "admin address {bound}: it is served no longer: {error}; metrics and health are missing until a restart, files are \
                 served as ever [admin-gone]"
            );
        }
    })?;
    Ok(bound)
}

/// Serves until the listener fails.
pub(crate) async fn serve(listener: tokio::net::TcpListener, subject: AdminSources) -> std::io::Result<()> {
    let listener = Listener::new(listener, Arc::clone(&subject.counters));
    axum::serve(listener, router(subject).into_make_service_with_connect_info::<Local>()).await
}

/// Binds the admin address.
pub(crate) fn bind(addr: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn router(subject: AdminSources) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/stats.json", get(stats))
        .layer(middleware::from_fn_with_state(subject.clone(), named))
        .with_state(subject)
}

/// Passes on a request that uses a name of the server, and refuses any other.
async fn named(
    State(subject): State<AdminSources>,
    ConnectInfo(Local(local)): ConnectInfo<Local>,
    request: Request,
    next: Next,
) -> Response {
    match host::check(request.version(), request.headers(), local, &subject.names) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            subject.counters.hosts_refused.increment();
            refusal.into_response()
        }
    }
}

async fn metrics(State(subject): State<AdminSources>, headers: HeaderMap) -> impl IntoResponse {
    subject.memory.ask();
    let accept = headers.get(header::ACCEPT).map(|accept| accept.to_str().unwrap_or_default());
    match subject.blocks.prometheus_with(Box::new(UsageGauges(subject.volumes()))) {
        Ok(all) if text::takes_openmetrics(accept) => {
            ([(header::CONTENT_TYPE, OPENMETRICS)], all).into_response()
        }
        Ok(all) => ([(header::CONTENT_TYPE, PLAIN)], text::as_plain(&all)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn health(State(subject): State<AdminSources>) -> impl IntoResponse {
    if subject.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    (StatusCode::OK, format!("ok\n{}", subject.health.lines()))
}

async fn stats(State(subject): State<AdminSources>) -> Json<Snapshot> {
    subject.memory.ask();
    let volumes = subject.volumes();
    Json(Snapshot { volumes, ..Snapshot::take(&subject.blocks, &subject.lanes, subject.started) })
}

async fn index() -> Html<&'static str> {
    Html(INDEX)
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Linerate</title>\
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}</style>\
<h1>Linerate</h1><ul><li><a href=/metrics>metrics</a> for Prometheus\
<li><a href=/stats.json>stats.json</a>, what <code>linerate stat</code> shows\
<li><a href=/health>health</a></ul></html>";
