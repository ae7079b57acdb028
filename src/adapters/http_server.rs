//! An HTTP/1.1 server with routes of plain functions, and event streams. It does not interpret the
//! routes.
//!
//! The number of connections, the sizes of requests and all waiting are bounded (see
//! `connections`), so that idle, slow and hostile clients cost little and do not block others.
//! With its submodules, the only user of `axum`, `futures-util`, `hyper` and `hyper-util`; with `mcp`,
//! the only user of `tokio` and the only asynchronous code of the program.

mod connections;

use std::{
    convert::Infallible,
    io,
    net::TcpListener,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Query, RawPathParams, Request},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{Event as SseEvent, KeepAlive, Sse},
    },
    routing::{MethodFilter, on},
};
use futures_util::stream;
use tokio::{runtime, sync::broadcast, task::spawn_blocking, time};

use connections::ClientConnection;

/// The time limit for the body of a request.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for an answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// The interval of the comments that keep an event stream open and show that it is.
const STREAM_BEAT: Duration = Duration::from_secs(15);
/// The number of routes that answer at a time.
const ANSWERING: usize = 4;
/// How long an idle thread that answers is kept.
const IDLE_THREAD: Duration = Duration::from_secs(10);
/// The number of events that a slow subscriber may lag behind.
const LAG: usize = 256;
/// The number of event streams that may be open at a time.
const STREAMS: usize = 32;

/// A function that answers requests.
type Answer = Arc<dyn Fn(&HttpRequest) -> HttpReply + Send + Sync>;
/// A function that lets requests in or refuses them.
type Guard = Arc<dyn Fn(&HttpRequest) -> Result<HttpCaller, HttpReply> + Send + Sync>;

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// Reads, also without the body of the answer.
    Get,
    /// Acts.
    Post,
}

/// A request.
#[derive(Debug)]
pub struct HttpRequest {
    is_read: bool,
    is_head: bool,
    path: String,
    parameters: Vec<(String, String)>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Whether the client of a request is known. Where connections run short, those of unknown clients
/// are closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpCaller {
    /// It has shown that it may come in.
    Known,
    /// Its request needs no proof.
    Unknown,
}

/// The answer to a request.
#[derive(Debug)]
pub enum HttpReply {
    /// An answer at once.
    Whole {
        /// The status code.
        status: u16,
        /// Headers of this answer alone.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// Events until the client or the server ends.
    Events(Subscription),
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEvent {
    /// The place to resume at: the client sends it as `Last-Event-ID` when it connects again.
    pub id: String,
    /// The kind of the event.
    pub name: &'static str,
    /// The data: one line of JSON.
    pub data: String,
}

/// The events that all open streams get.
#[derive(Clone, Debug)]
pub struct EventFeed(broadcast::Sender<ServerEvent>);

/// The subscription of one stream.
#[derive(Debug)]
pub struct Subscription {
    first: Vec<ServerEvent>,
    rest: broadcast::Receiver<ServerEvent>,
}

/// The routes of a server.
pub struct Site {
    router: Router,
    guard: Guard,
    headers: HeaderMap,
    keep_alive: bool,
    body: usize,
}

impl HttpRequest {
    fn of_head(parts: &Parts) -> HttpRequest {
        let query = Query::try_from_uri(&parts.uri);
        HttpRequest {
            is_read: parts.method.is_safe(),
            is_head: parts.method == "HEAD",
            path: parts.uri.path().to_owned(),
            parameters: Vec::new(),
            query: query.map_or_else(|_| Vec::new(), |Query(query)| query),
            headers: parts.headers.clone(),
            body: Vec::new(),
        }
    }

    /// Whether the method only reads.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Whether only the head of the answer is asked for.
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// The path, as it was sent.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A parameter of the route's path, decoded.
    pub fn parameter(&self, name: &str) -> &str {
        find(&self.parameters, name).unwrap_or_default()
    }

    /// A parameter of the query, decoded.
    pub fn query(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    /// A header that was sent exactly once, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.get_all(name).iter();
        all.next().filter(|_| all.next().is_none())?.to_str().ok()
    }

    /// Whether it has this header.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    /// The values of a header that may be sent several times, as far as they are text.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

impl HttpReply {
    /// An answer with a body of this media type.
    pub fn of(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> HttpReply {
        let headers = vec![("content-type", media_type.to_owned())];
        HttpReply::Whole { status, headers, body: body.into() }
    }

    /// An answer of one line.
    pub fn text(status: u16, text: &str) -> HttpReply {
        HttpReply::of(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    /// The same answer with one more header; an event stream has none of its own.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> HttpReply {
        if let HttpReply::Whole { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

impl IntoResponse for HttpReply {
    fn into_response(self) -> Response {
        match self {
            HttpReply::Whole { status, headers, body } => {
                let mut response = Response::new(Body::from(body));
                *response.status_mut() =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                for (name, value) in headers {
                    // A value that cannot be sent is left out: the header would be cut elsewhere.
                    if let Ok(value) = HeaderValue::from_str(&value) {
                        response.headers_mut().append(HeaderName::from_static(name), value);
                    }
                }
                response
            }
            HttpReply::Events(subscription) => subscription.into_response(),
        }
    }
}

impl EventFeed {
    /// A feed without subscribers.
    pub fn new() -> EventFeed {
        EventFeed(broadcast::channel(LAG).0)
    }

    /// The number of open streams.
    pub fn subscribers(&self) -> usize {
        self.0.receiver_count()
    }

    /// Sends an event to all open streams.
    pub fn send(&self, event: ServerEvent) {
        // An error means that there is no subscriber.
        let _ = self.0.send(event);
    }

    /// A new stream, which begins with the events that `first` returns; `first` is called after the
    /// subscription, so that no event is lost between the two.
    pub fn subscribe(&self, first: impl FnOnce() -> Vec<ServerEvent>) -> HttpReply {
        if self.subscribers() >= STREAMS {
            return HttpReply::text(503, "too many event streams are open; close other tabs");
        }
        let rest = self.0.subscribe();
        HttpReply::Events(Subscription { first: first(), rest })
    }
}

impl Default for EventFeed {
    fn default() -> EventFeed {
        EventFeed::new()
    }
}

impl Subscription {
    fn into_response(self) -> Response {
        let Subscription { first, rest } = self;
        let first = stream::iter(first.into_iter().map(|event| Ok::<_, Infallible>(event.sse())));
        // A subscriber that lags too far behind is cut off; it connects again and resumes.
        let rest = stream::unfold(rest, |mut rest| async move {
            let event = rest.recv().await.ok()?;
            Some((Ok::<_, Infallible>(event.sse()), rest))
        });
        let events = stream::StreamExt::chain(first, rest);
        Sse::new(events).keep_alive(KeepAlive::new().interval(STREAM_BEAT)).into_response()
    }
}

impl ServerEvent {
    fn sse(&self) -> SseEvent {
        SseEvent::default().id(&self.id).event(self.name).data(&self.data)
    }
}

impl Site {
    /// A site without routes. `guard` sees every request before anything else, also those that no
    /// route answers; `body` is the maximum size of a body in bytes. Without `keep_alive`, each
    /// connection has one request.
    pub fn new(
        body: usize,
        keep_alive: bool,
        guard: impl Fn(&HttpRequest) -> Result<HttpCaller, HttpReply> + Send + Sync + 'static,
    ) -> Site {
        let (router, guard) = (Router::new(), Arc::new(guard));
        Site { router, guard, headers: HeaderMap::new(), keep_alive, body }
    }

    /// Adds a header to every answer.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Site {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// Adds a route. `{name}` in its path is a parameter.
    #[must_use]
    pub fn route(
        mut self,
        method: HttpMethod,
        path: &str,
        answer: impl Fn(&HttpRequest) -> HttpReply + Send + Sync + 'static,
    ) -> Site {
        let method = match method {
            HttpMethod::Get => MethodFilter::GET,
            HttpMethod::Post => MethodFilter::POST,
        };
        let (answer, room): (Answer, usize) = (Arc::new(answer), self.body);
        let handler = move |parameters: RawPathParams, request: Request| {
            reply(Arc::clone(&answer), room, parameters, request)
        };
        self.router = self.router.route(path, on(method, handler));
        self
    }

    /// Sets the answers to requests for unknown paths and for other methods of known paths.
    #[must_use]
    pub fn otherwise(mut self, path: &'static str, method: &'static str) -> Site {
        let missing = move || async move { HttpReply::text(404, path) };
        let refused = move || async move { HttpReply::text(405, method) };
        self.router = self.router.fallback(missing).method_not_allowed_fallback(refused);
        self
    }

    /// Answers the connections of `listener`, on a thread that lives as long as the process.
    ///
    /// # Errors
    /// The thread or its event loop cannot be started.
    pub fn serve(self, listener: TcpListener) -> io::Result<()> {
        let Site { router, guard, headers, keep_alive, .. } = self;
        let shared = Arc::new((guard, headers));
        let router = router.layer(middleware::from_fn(move |request: Request, next: Next| {
            admit(Arc::clone(&shared), request, next)
        }));
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(ANSWERING)
            .thread_keep_alive(IDLE_THREAD)
            .build()?;
        let thread = thread::Builder::new().name("http".to_owned());
        thread
            .spawn(move || runtime.block_on(connections::accept(listener, router, keep_alive)))?;
        Ok(())
    }
}

/// Lets a request in, and completes the headers of its answer.
async fn admit(shared: Arc<(Guard, HeaderMap)>, request: Request, next: Next) -> Response {
    let (guard, headers) = &*shared;
    let (parts, body) = request.into_parts();
    let mut response = match guard(&HttpRequest::of_head(&parts)) {
        Ok(caller) => {
            if let (HttpCaller::Known, Some(connection)) =
                (caller, parts.extensions.get::<ClientConnection>())
            {
                connection.known.store(true, Ordering::Relaxed);
            }
            next.run(Request::from_parts(parts, body)).await
        }
        Err(reply) => reply.into_response(),
    };
    for (name, value) in headers {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response
}

/// The answer of a route.
async fn reply(answer: Answer, room: usize, names: RawPathParams, request: Request) -> HttpReply {
    let (parts, body) = request.into_parts();
    let mut request = HttpRequest::of_head(&parts);
    request.parameters =
        names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    request.body = match time::timeout(BODY_PATIENCE, to_bytes(body, room)).await {
        Ok(Ok(bytes)) => bytes.to_vec(),
        Ok(Err(_)) => {
            return HttpReply::text(413, &format!("the body has more than {} KiB", room / 1024));
        }
        Err(_) => return HttpReply::text(408, "the body took too long"),
    };
    let answered = time::timeout(ANSWER_PATIENCE, spawn_blocking(move || answer(&request)));
    match answered.await {
        Ok(Ok(reply)) => reply,
        // The panic has been reported on standard error.
        Ok(Err(_)) => HttpReply::text(500, "the answer failed; the server's output has the reason"),
        Err(_) => HttpReply::text(503, "the answer took too long; try again"),
    }
}
