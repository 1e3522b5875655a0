//! The real binary, and a server of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Path of a file or folder of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A JSON file of the repository.
pub fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(repository(path)).expect("a file")).expect("a JSON file")
}

/// The binary without settings of the surroundings, in the repository's root.
pub fn tokenfare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenfare"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TF_") {
            command.env_remove(name);
        }
    }
    command.current_dir(repository("."));
    command
}

/// A server that lives as long as this value.
pub struct Server {
    pub child: Child,
    pub address: String,
}

impl Server {
    /// Starts `tokenfare serve` on a free port.
    pub fn start(args: &[&str]) -> Self {
        let mut command = tokenfare();
        command.arg("serve").args(args).args(["--port", "0"]).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut seen = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the server ended: {seen}")).expect("UTF-8");
            if let Some((_, rest)) = line.split_once(" at http://") {
                break rest.split(' ').next().expect("an address").to_owned();
            }
            seen.push_str(&line);
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// Sends raw bytes and returns the whole answer.
    pub fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.write_all(request).expect("the request goes out");
        let mut answer = Vec::new();
        // A server that refuses early may reset the connection behind its answer.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("UTF-8")
    }

    /// Status and body of a request.
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let answer = self.raw(&[head.as_bytes(), body].concat());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a header and a body");
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        (status, if chunked { unchunked(body) } else { body.to_owned() })
    }

    /// Status and JSON of a POST.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.send("POST", path, body.to_string().as_bytes());
        (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    }

    /// The JSON of a POST that succeeds.
    pub fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.post(path, body);
        assert_eq!(status, 200, "{value}");
        value
    }

    /// Data of all events of a streamed reply, `[DONE]` checked and left out.
    pub fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let (status, text) = self.send("POST", path, body.to_string().as_bytes());
        assert_eq!(status, 200, "{text}");
        let mut data: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|d| serde_json::from_str(d).expect("JSON")).collect()
    }
}

fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        text = &rest[size + 2..];
    }
    whole
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
