//! Server-sent events of a streamed reply.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event as Sse, KeepAlive};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokenfare_lanes::{Event, ReplyStats};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::ApiError;
use crate::admission::Reply;
use crate::reply::{add_receipt, usage};

/// How a protocol writes the events of one choice.
pub(crate) trait Chunks: Send + 'static {
    /// Chunks of an event, in order.
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Value>, ApiError>;

    /// The chunk frame without choices, for usage.
    fn frame(&self) -> Value;

    /// Choices of one prompt.
    fn choices_a_prompt(&self) -> usize;
}

/// What closes a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The receipt alone.
    Omit,
    /// A usage event too.
    Include,
}

async fn drive(
    mut replies: Vec<Reply>,
    mut chunks: impl Chunks,
    closing: Usage,
    out: mpsc::UnboundedSender<String>,
) {
    let (merge, mut events) = mpsc::unbounded_channel();
    for (choice, mut reply) in replies.drain(..).enumerate() {
        let merge = merge.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = reply.next() => match event {
                        Some(event) => if merge.send((choice, event)).is_err() { break },
                        None => break,
                    },
                    () = merge.closed() => break,
                }
            }
        });
    }
    drop(merge);
    let mut ends: Vec<(usize, ReplyStats)> = Vec::new();
    loop {
        let received = tokio::select! {
            event = events.recv() => event,
            () = out.closed() => return,
        };
        let Some((choice, event)) = received else { break };
        let written = chunks.event(choice, &event);
        if let Event::Finished { stats, .. } = event {
            ends.push((choice, *stats));
        }
        match written {
            Ok(list) => {
                for chunk in list {
                    if out.send(chunk.to_string()).is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                // A client that left needs no error.
                let _ = out.send(error.body().to_string());
                let _ = out.send("[DONE]".to_owned());
                return;
            }
        }
    }
    ends.sort_by_key(|&(choice, _)| choice);
    let mut last = chunks.frame();
    if let Some((_, stats)) = ends.first() {
        add_receipt(&mut last, stats);
    }
    if closing == Usage::Include {
        last["usage"] = usage(&ends.iter().map(|(_, s)| s).collect::<Vec<_>>(), chunks.choices_a_prompt());
    }
    let _ = out.send(last.to_string());
    let _ = out.send("[DONE]".to_owned());
}

/// The response that streams `replies`, one a choice. Dropping it frees their lanes.
pub(crate) fn respond(
    replies: Vec<Reply>,
    chunks: impl Chunks,
    closing: Usage,
    keepalive: Option<Duration>,
) -> Response {
    let (out, lines) = mpsc::unbounded_channel();
    tokio::spawn(drive(replies, chunks, closing, out));
    let stream =
        UnboundedReceiverStream::new(lines).map(|data| Ok::<_, Infallible>(Sse::default().data(data)));
    let sse = axum::response::sse::Sse::new(stream);
    match keepalive {
        Some(interval) => sse.keep_alive(KeepAlive::new().interval(interval)).into_response(),
        None => sse.into_response(),
    }
}
