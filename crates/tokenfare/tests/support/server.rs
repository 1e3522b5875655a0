//! A server of the real binary, and a small client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;

/// A running server; killed when dropped and when this process ends, which drops no statics.
pub struct Server {
    child: Child,
    guard: Child,
    address: String,
    startup: Vec<String>,
    drain: Option<JoinHandle<()>>,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Status, `param`, `code` and message of an error.
    pub fn error(&self) -> (u16, Value, Value, String) {
        let error = self.json()["error"].clone();
        let message = error["message"].as_str().unwrap().to_owned();
        (self.status, error["param"].clone(), error["code"].clone(), message)
    }

    /// The events of a stream without its end, which must be `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        let mut data: Vec<&str> = self.body.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|d| serde_json::from_str(d).unwrap()).collect()
    }
}

impl Server {
    /// Starts `tokenfare serve` on a free port and waits for its address.
    pub fn start(args: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = super::tokenfare();
        command.args(["serve", "--port", "0"]).args(args).envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Its standard input ends with this process.
        let watch = format!("read line; kill -9 {}", child.id());
        let mut guard = Command::new("sh");
        guard.args(["-c", &watch]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut startup = Vec::new();
        let line = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the server did not start: {startup:#?}"));
            startup.push(line.clone());
            if line.contains("serving ") && line.contains("http://") {
                break line;
            }
        };
        let address = line.split_once("http://").unwrap().1.split([' ', '"']).next().unwrap().to_owned();
        let drain = Some(std::thread::spawn(move || lines.for_each(drop)));
        Self { child, guard, address, startup, drain }
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the start wrote to standard error, the line with the address last.
    pub fn startup(&self) -> &[String] {
        &self.startup
    }

    /// Opens a connection.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// Opens a connection and sends a request with these bytes as its body.
    pub fn send(&self, method: &str, path: &str, length: usize, body: &[u8]) -> TcpStream {
        self.send_as("application/json", method, path, length, body)
    }

    /// As [`Self::send`], with a content type.
    pub fn send_as(&self, kind: &str, method: &str, path: &str, length: usize, body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n",
            self.address
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        stream
    }

    /// One request with raw bytes.
    pub fn raw(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        read(self.send(method, path, body.len(), body))
    }

    /// POSTs JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.raw("POST", path, body.to_string().as_bytes())
    }

    /// POSTs JSON that must be accepted.
    pub fn ok(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    /// GETs a path.
    pub fn get(&self, path: &str) -> Answer {
        self.raw("GET", path, b"")
    }

    /// Polls /health until it shows this many running replies.
    pub fn wait_running(&self, count: u64) {
        while self.get("/health").json()["running"] != count {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

/// Reads an answer to its end.
pub fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guard goes first, so that it kills no later process of the same id.
        for child in [&mut self.guard, &mut self.child] {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(drain) = self.drain.take() {
            let _ = drain.join();
        }
    }
}
