//! Just enough HTTP for a local server: one request a connection, read whole.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

/// Longest body that is read.
const LONGEST: u64 = 1 << 24;
/// What ends a stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// A request.
pub struct Request {
    /// Its path.
    pub path: String,
    /// Its body; null where there is none.
    pub body: Value,
}

/// What answers requests, several at once.
pub trait Handler: Send + Sync + 'static {
    /// Writes the whole answer.
    ///
    /// # Errors
    /// The connection's.
    fn answer(&self, request: &Request, out: &mut TcpStream) -> io::Result<()>;
}

/// A running server on a port of its own; it stops listening when dropped.
pub struct HttpServer {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on a free port.
    ///
    /// # Errors
    /// The system's.
    pub fn start(handler: impl Handler) -> io::Result<Self> {
        Self::start_at(0, handler)
    }

    /// Listens on a port of the loopback address; 0 takes a free one.
    ///
    /// # Errors
    /// The system's.
    pub fn start_at(port: u16, handler: impl Handler) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (handler, over) = (Arc::new(handler), Arc::clone(&ended));
        let listen = move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let handler = Arc::clone(&handler);
                if let Ok(stream) = stream {
                    std::thread::spawn(move || converse(&*handler, stream));
                }
            }
        };
        let listener = Some(std::thread::Builder::new().name("listener".into()).spawn(listen)?);
        Ok(Self { address, ended, listener })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // One more connection wakes the listener up.
        if TcpStream::connect(self.address).is_ok()
            && let Some(listener) = self.listener.take()
        {
            let _ = listener.join();
        }
    }
}

fn converse(handler: &dyn Handler, mut stream: TcpStream) {
    // A client that goes away ends its connection and nothing else.
    let _ = stream.set_nodelay(true);
    let _ = read(&stream).and_then(|request| handler.answer(&request, &mut stream));
}

fn read(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = Vec::new();
    reader.take(length.min(LONGEST)).read_to_end(&mut body)?;
    Ok(Request { path, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// Answers with one document.
pub fn json(out: &mut TcpStream, document: &Value) -> io::Result<()> {
    let text = document.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
    out.write_all(format!("{head} {}\r\n\r\n{text}", text.len()).as_bytes())
}

/// Begins a stream of events, which ends with the connection.
pub fn stream(out: &mut TcpStream) -> io::Result<()> {
    out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
}

/// Writes one event.
pub fn event(out: &mut TcpStream, data: &Value) -> io::Result<()> {
    out.write_all(format!("data: {data}\n\n").as_bytes())
}
