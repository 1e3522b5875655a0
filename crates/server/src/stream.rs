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

/// One event of a stream.
pub(crate) struct Line {
    name: Option<&'static str>,
    data: String,
}

impl Line {
    /// An event without a name.
    pub(crate) fn data(data: &Value) -> Self {
        Self { name: None, data: data.to_string() }
    }

    /// An event of a protocol that names them.
    pub(crate) fn named(name: &'static str, data: &Value) -> Self {
        Self { name: Some(name), data: data.to_string() }
    }

    fn sse(self) -> Sse {
        let event = Sse::default();
        let event = match self.name {
            Some(name) => event.event(name),
            None => event,
        };
        event.data(self.data)
    }
}

/// How a protocol writes a streamed reply.
pub(crate) trait Writer: Send + 'static {
    /// Before anything has happened.
    fn open(&mut self) -> Vec<Line> {
        Vec::new()
    }

    /// What happened to a choice.
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Line>, ApiError>;

    /// The end of replies with these statistics.
    fn close(&mut self, ends: &[ReplyStats]) -> Vec<Line>;

    /// The end after a failure.
    fn fail(&mut self, error: &ApiError) -> Vec<Line>;

    /// What is sent on a silent stream; `None`: a comment.
    fn ping(&self) -> Option<Line> {
        None
    }
}

/// How one of OpenAI's protocols of choices writes the events of one choice.
pub(crate) trait Chunks: Send + 'static {
    /// Chunks of an event, in order.
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Value>, ApiError>;

    /// The chunk frame without choices, for usage.
    fn frame(&self) -> Value;

    /// Choices of one prompt.
    fn choices_a_prompt(&self) -> usize;
}

/// What closes a stream of choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The receipt alone.
    Omit,
    /// Usage too.
    Include,
}

/// A stream of choices, which ends with the receipt and `[DONE]`.
pub(crate) struct Choices<C> {
    /// What writes a choice.
    pub chunks: C,
    /// What closes the stream.
    pub closing: Usage,
}

fn done() -> Line {
    Line { name: None, data: "[DONE]".to_owned() }
}

impl<C: Chunks> Writer for Choices<C> {
    fn event(&mut self, choice: usize, event: &Event) -> Result<Vec<Line>, ApiError> {
        Ok(self.chunks.event(choice, event)?.iter().map(Line::data).collect())
    }

    fn close(&mut self, ends: &[ReplyStats]) -> Vec<Line> {
        let mut last = self.chunks.frame();
        if let Some(stats) = ends.first() {
            add_receipt(&mut last, stats);
        }
        if self.closing == Usage::Include {
            last["usage"] = usage(&ends.iter().collect::<Vec<_>>(), self.chunks.choices_a_prompt());
        }
        vec![Line::data(&last), done()]
    }

    fn fail(&mut self, error: &ApiError) -> Vec<Line> {
        vec![Line::data(&error.body()), done()]
    }
}

async fn drive(mut replies: Vec<Reply>, mut writer: impl Writer, out: mpsc::UnboundedSender<Line>) {
    // A client that left is seen by `closed`.
    let send = |lines: Vec<Line>| lines.into_iter().for_each(|line| drop(out.send(line)));
    send(writer.open());
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
        let written = writer.event(choice, &event);
        if let Event::Finished { stats, .. } = event {
            ends.push((choice, *stats));
        }
        match written {
            Ok(lines) => send(lines),
            Err(error) => return send(writer.fail(&error)),
        }
    }
    ends.sort_by_key(|&(choice, _)| choice);
    let ends: Vec<ReplyStats> = ends.into_iter().map(|(_, stats)| stats).collect();
    send(writer.close(&ends));
}

/// The response that streams `replies`, one a choice. Dropping it frees their lanes.
pub(crate) fn respond(replies: Vec<Reply>, writer: impl Writer, keepalive: Option<Duration>) -> Response {
    let (out, lines) = mpsc::unbounded_channel();
    let ping = writer.ping();
    tokio::spawn(drive(replies, writer, out));
    let stream = UnboundedReceiverStream::new(lines).map(|line: Line| Ok::<_, Infallible>(line.sse()));
    let sse = axum::response::sse::Sse::new(stream);
    let Some(interval) = keepalive else { return sse.into_response() };
    let kept = KeepAlive::new().interval(interval);
    match ping {
        Some(line) => sse.keep_alive(kept.event(line.sse())).into_response(),
        None => sse.keep_alive(kept).into_response(),
    }
}
