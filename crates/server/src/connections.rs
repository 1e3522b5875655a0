//! Connections: accepted, read with a patience that ends, and closed at shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use axum::{BoxError, Router};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep};

use crate::ApiError;

/// Time for the head of a request, and for a kept connection to begin its next.
const HEAD: Duration = Duration::from_secs(60);
/// Longest silence inside a body.
const SILENCE: Duration = Duration::from_secs(30);
/// Time for a whole body.
const BODY: Duration = Duration::from_secs(600);

/// Serves `routes` on every connection until `closing` resolves, then until the running requests have ended.
pub(crate) async fn serve(mut listener: TcpListener, routes: Router, closing: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    let mut closing = pin!(closing);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = &mut closing => break,
        };
        // The events of a stream are small and should not wait for each other; a socket that refuses only delays them.
        let _ = stream.set_nodelay(true);
        let connection = connections.watch(connection(TokioIo::new(stream), peer, routes.clone()));
        tokio::spawn(async move {
            // A connection that breaks ends its requests, and nobody else needs to know.
            let _ = connection.await;
        });
    }
    drop(listener);
    connections.shutdown().await;
}

fn connection<I>(io: I, peer: SocketAddr, routes: Router) -> impl GracefulConnection<Error = hyper::Error>
where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(routes.clone(), peer, request));
    http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(HEAD).serve_connection(io, service)
}

async fn answer(
    routes: Router,
    peer: SocketAddr,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    TowerToHyperService::new(routes).call(request).await
}

/// Answers a request whose client was silent or slow for too long inside its body.
pub(crate) async fn patience(request: Request, next: Next) -> Response {
    let late = Arc::new(AtomicBool::new(false));
    let response = next.run(request.map(|body| Body::new(Patient::new(body, late.clone())))).await;
    if late.load(Ordering::Relaxed) { too_late() } else { response }
}

fn too_late() -> Response {
    let problem = format!(
        "body: expected to go on within {} s and to end within {} s",
        SILENCE.as_secs(),
        BODY.as_secs()
    );
    let mut response = ApiError::status(StatusCode::REQUEST_TIMEOUT, problem).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A request body that is an error once its client has been silent or slow for too long.
struct Patient {
    body: Body,
    end: Instant,
    limit: Pin<Box<Sleep>>,
    late: Arc<AtomicBool>,
}

impl Patient {
    fn new(body: Body, late: Arc<AtomicBool>) -> Self {
        let limit = Box::pin(tokio::time::sleep(SILENCE));
        Self { body, end: Instant::now() + BODY, limit, late }
    }
}

impl HttpBody for Patient {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.limit.as_mut().reset(this.end.min(Instant::now() + SILENCE));
                Poll::Ready(frame.map(|result| result.map_err(Into::into)))
            }
            Poll::Pending => {
                ready!(this.limit.as_mut().poll(cx));
                this.late.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err("the client was silent or slow for too long".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::middleware::from_fn;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    async fn length(body: Bytes) -> String {
        // A reply may take longer than any limit of a request.
        tokio::time::sleep(2 * BODY).await;
        body.len().to_string()
    }

    /// A client whose server answers each body with its length.
    fn client() -> DuplexStream {
        let (client, server) = tokio::io::duplex(1 << 16);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let routes = Router::new().route("/", post(length)).layer(from_fn(patience));
        tokio::spawn(connection(TokioIo::new(server), peer, routes));
        client
    }

    /// Sends `head`, then `pieces` bytes, each after `pause`, and reads until the server closes.
    async fn exchange(head: &str, pieces: usize, pause: Duration) -> (String, Duration) {
        let mut client = client();
        let start = Instant::now();
        client.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..pieces {
            tokio::time::sleep(pause).await;
            if client.write_all(b"x").await.is_err() {
                break;
            }
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        (answer, start.elapsed())
    }

    fn head(length: usize) -> String {
        format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_closes_its_connection() {
        let (answer, time) = exchange("POST / HTTP/1.1\r\nhost:", 600, Duration::from_secs(1)).await;
        assert_eq!(answer, "");
        assert!((HEAD..HEAD + Duration::from_secs(2)).contains(&time), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_answered_and_its_connection_closed() {
        let (answer, time) = exchange(&head(100), 5, Duration::from_secs(1)).await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("within 30 s"), "{answer}");
        assert!((SILENCE..SILENCE + Duration::from_secs(9)).contains(&time), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_for_too_long_is_answered() {
        let (answer, time) = exchange(&head(100), 100, Duration::from_secs(20)).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(time >= BODY, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_and_a_slow_reply_are_served() {
        let (answer, _) = exchange(&head(20), 20, Duration::from_secs(25)).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n20"), "{answer}");
    }
}
