//! A client of the OpenAI API that notes when each event of a stream came.

mod reply;
mod sse;

use std::io::BufReader;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::uri::Authority;
use ureq::http::{HeaderValue, Response, Uri};
use ureq::{Agent, Body};

use crate::BenchError;
pub use reply::{Counted, Counters, Reply};
pub use sse::Events;

/// Bytes of a refused answer that are shown.
const SHOWN: usize = 300;

/// A server's address and how to speak to it.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    key: Option<String>,
}

/// Whether there is a host, and no port or one that exists.
fn names_a_place(authority: &Authority) -> bool {
    let without_port = authority.as_str().ends_with(authority.host());
    !authority.host().is_empty() && (without_port || authority.port_u16().is_some())
}

impl Client {
    /// A client of the server at `url`, with or without `/v1` at its end. `timeout` bounds one whole reply.
    ///
    /// # Errors
    /// An address that is neither `http://` nor `https://`, without a host or with a port that is none; a key that no
    /// header carries.
    pub fn new(url: &str, key: Option<String>, timeout: Duration) -> Result<Self, BenchError> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let problem = format!("{url}: expected an address that starts with http:// or https://");
            return Err(BenchError::Flag(problem));
        }
        let address = url.parse::<Uri>().ok().filter(|uri| uri.authority().is_some_and(names_a_place));
        if address.is_none() {
            let problem = format!("{url}: expected an address with a host and a port up to 65535");
            return Err(BenchError::Flag(problem));
        }
        if key.as_deref().is_some_and(|key| HeaderValue::from_str(key).is_err()) {
            return Err(BenchError::Flag("--api-key: expected visible ASCII characters".into()));
        }
        let base = url.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches('/').to_owned();
        let config =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(timeout)).build();
        Ok(Self { agent: config.into(), base, key })
    }

    /// GETs a JSON document.
    ///
    /// # Errors
    /// No connection, a status other than 200, no JSON.
    pub fn get(&self, path: &str) -> Result<Value, BenchError> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let what = format!("GET {path}");
        let answer =
            request.call().map_err(|e| BenchError::Http { what: what.clone(), cause: Box::new(e) })?;
        json(&what, &text(&what, answer)?)
    }

    /// POSTs a body whose answer is one JSON document.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, BenchError> {
        let what = format!("POST {path}");
        json(&what, &text(&what, self.send(&what, path, body)?)?)
    }

    /// POSTs a body whose answer is a stream, and reads it to its end. Times in the reply count from `epoch`.
    ///
    /// # Errors
    /// No connection, a status other than 200, an error event, a stream without its end.
    pub fn stream(&self, path: &str, body: &Value, epoch: Instant) -> Result<Reply, BenchError> {
        let what = format!("POST {path}");
        let sent = epoch.elapsed();
        let answer = accepted(&what, self.send(&what, path, body)?)?;
        // Events are kept as text and read after the end, so that no parsing stands between two of them.
        let mut events: Vec<(Duration, String)> = Vec::with_capacity(1024);
        for event in Events::new(BufReader::new(answer.into_body().into_reader())) {
            let event =
                event.map_err(|e| BenchError::Http { what: what.clone(), cause: Box::new(e.into()) })?;
            events.push((epoch.elapsed(), event));
        }
        Reply::of(&what, sent, &events)
    }

    /// The name of the first model that the server lists, and the longest context it states.
    ///
    /// # Errors
    /// As [`Self::get`]; a list without a model.
    pub fn model(&self) -> Result<(String, Option<usize>), BenchError> {
        let models = self.get("/v1/models")?;
        let model = &models["data"][0];
        let Some(id) = model["id"].as_str() else {
            let found = models.to_string();
            return Err(BenchError::Answer { what: "GET /v1/models".into(), expected: "a model", found });
        };
        let context = model["max_model_len"].as_u64().and_then(|n| usize::try_from(n).ok());
        Ok((id.to_owned(), context))
    }

    fn send(&self, what: &str, path: &str, body: &Value) -> Result<Response<Body>, BenchError> {
        let mut request =
            self.agent.post(format!("{}{path}", self.base)).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request
            .send(body.to_string())
            .map_err(|e| BenchError::Http { what: what.to_owned(), cause: Box::new(e) })
    }
}

fn accepted(what: &str, answer: Response<Body>) -> Result<Response<Body>, BenchError> {
    let status = answer.status().as_u16();
    if status == 200 {
        return Ok(answer);
    }
    let body = answer.into_body().read_to_string().unwrap_or_default();
    let body = body.chars().take(SHOWN).collect();
    Err(BenchError::Status { what: what.to_owned(), status, body })
}

fn text(what: &str, answer: Response<Body>) -> Result<String, BenchError> {
    let mut body = accepted(what, answer)?.into_body();
    body.read_to_string().map_err(|e| BenchError::Http { what: what.to_owned(), cause: Box::new(e) })
}

fn json(what: &str, text: &str) -> Result<Value, BenchError> {
    serde_json::from_str(text).map_err(|_| BenchError::Answer {
        what: what.to_owned(),
        expected: "JSON",
        found: text.chars().take(SHOWN).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("http://127.0.0.1:8080", "http://127.0.0.1:8080")]
    #[case("http://127.0.0.1:8080/", "http://127.0.0.1:8080")]
    #[case("https://example.com/v1/", "https://example.com")]
    #[case("https://example.com/api/v1", "https://example.com/api")]
    fn addresses_end_before_the_version(#[case] url: &str, #[case] base: &str) {
        assert_eq!(Client::new(url, None, Duration::from_secs(1)).unwrap().base, base);
    }

    #[test]
    fn an_address_needs_its_scheme() {
        let error = Client::new("localhost:8080", None, Duration::from_secs(1)).unwrap_err();
        let expected = "localhost:8080: expected an address that starts with http:// or https://";
        assert_eq!(error.to_string(), expected);
    }
}
