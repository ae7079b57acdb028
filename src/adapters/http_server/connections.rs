//! The connections of a server: how many there may be, how large a head may be, and how long a
//! client may keep the server waiting.

use std::{
    collections::VecDeque,
    io,
    net::TcpListener,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{Router, extract::Request};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{self, TcpStream},
    task::JoinHandle,
    time::{self, Sleep},
};

/// The number of connections that may be open at a time.
const CONNECTIONS: usize = 64;
/// The time limit for the head of a request, also of the next one on the same connection, and for
/// taking a part of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum size of the request line and the headers.
const HEAD: usize = 16 * 1024;
/// The maximum number of headers.
const HEADERS: usize = 64;
/// The pause when a connection cannot be accepted, for example without file handles.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Connection facts for its requests.
#[derive(Clone, Debug)]
pub(super) struct ClientConnection {
    /// Whether its client is known.
    pub(super) known: Arc<AtomicBool>,
}

/// A connection that was accepted.
struct OpenConnection {
    client: ClientConnection,
    task: JoinHandle<()>,
}

/// Answers the connections of `listener` with `router`, while it is polled.
pub(super) async fn accept(listener: TcpListener, router: Router, keep_alive: bool) {
    let Ok(listener) = net::TcpListener::from_std(listener) else {
        return;
    };
    // The oldest first.
    let mut open: VecDeque<OpenConnection> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            time::sleep(EXHAUSTED).await;
            continue;
        };
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= CONNECTIONS {
            let is_unknown = |it: &OpenConnection| !it.client.known.load(Ordering::Relaxed);
            let closed = open.iter().position(is_unknown).unwrap_or(0);
            if let Some(connection) = open.remove(closed) {
                connection.task.abort();
            }
        }
        let client = ClientConnection { known: Arc::default() };
        let task = tokio::spawn(answer(stream, client.clone(), router.clone(), keep_alive));
        open.push_back(OpenConnection { client, task });
    }
}

/// Answers the requests of one connection.
async fn answer(stream: TcpStream, client: ClientConnection, router: Router, keep_alive: bool) {
    // Without it, a short answer waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        router.call(request)
    });
    let stream = TokioIo::new(PatientStream { stream, due: None });
    // An error is one of the client, which is gone or gets nothing more.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(keep_alive)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(stream, service)
        .await;
}

/// A stream that ends if its client does not read.
struct PatientStream {
    stream: TcpStream,
    /// When the write that is pending fails.
    due: Option<Pin<Box<Sleep>>>,
}

impl PatientStream {
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.due = None;
            return result;
        }
        let due = self.due.get_or_insert_with(|| Box::pin(time::sleep(PATIENCE)));
        ready!(due.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, result)
    }
}
