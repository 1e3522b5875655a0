//! A hub on this machine that answers as told.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub const REPO: &str = "owner/name";

/// One file of the hub, and how it is served.
#[derive(Clone)]
pub struct Served {
    pub bytes: Vec<u8>,
    /// Whether the listing tells a SHA-256 or a Git hash.
    pub large: bool,
    /// What comes in place of the bytes.
    pub instead: Option<Vec<u8>>,
    /// Connections end after so many bytes, so many times.
    pub cuts: (usize, usize),
    /// Whether parts can be asked for.
    pub ranges: bool,
    pub etag: Option<String>,
    /// Answered so many times before anything else.
    pub errors: (u16, usize),
    /// Bytes come in blocks of 1000 with this pause.
    pub pause: Duration,
}

impl Served {
    pub fn new(bytes: Vec<u8>, large: bool) -> Self {
        let (cuts, errors) = ((0, 0), (0, 0));
        Self { bytes, large, instead: None, cuts, ranges: true, etag: None, errors, pause: Duration::ZERO }
    }
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub range: Option<String>,
    pub authorization: Option<String>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Served>,
    asked: Vec<Asked>,
    token: Option<String>,
}

/// The hub.
#[derive(Clone)]
pub struct FakeHub {
    pub endpoint: String,
    state: Arc<Mutex<State>>,
}

/// Bytes that do not repeat soon.
pub fn bytes(len: usize, salt: u32) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(salt) >> 13) as u8).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex(&sha2::Sha256::digest(bytes))
}

pub fn git_hash(bytes: &[u8]) -> String {
    use sha1::Digest;
    let head = format!("blob {}\0", bytes.len());
    hex(&sha1::Sha1::digest([head.as_bytes(), bytes].concat()))
}

impl FakeHub {
    pub fn start(files: &[(&str, Served)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let files = files.iter().map(|(name, file)| ((*name).to_owned(), file.clone())).collect();
        let state = Arc::new(Mutex::new(State { files, ..State::default() }));
        let hub = Self { endpoint, state };
        let served = hub.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let hub = served.clone();
                // A client that leaves is its own affair.
                std::thread::spawn(move || drop(hub.answer(stream)));
            }
        });
        hub
    }

    /// From now on only requests with this token are answered.
    pub fn close_without(&self, token: &str) {
        self.state.lock().unwrap().token = Some(token.to_owned());
    }

    pub fn change(&self, name: &str, how: impl FnOnce(&mut Served)) {
        how(self.state.lock().unwrap().files.get_mut(name).unwrap());
    }

    /// Requests so far for a file, or all.
    pub fn asked(&self, name: &str) -> Vec<Asked> {
        let state = self.state.lock().unwrap();
        state.asked.iter().filter(|a| a.path.ends_with(name)).cloned().collect()
    }

    fn listing(&self) -> Value {
        let state = self.state.lock().unwrap();
        let sibling = |(name, f): (&String, &Served)| {
            let size = f.bytes.len();
            let mut entry = json!({"rfilename": name, "size": size, "blobId": git_hash(&f.bytes)});
            if f.large {
                entry["lfs"] = json!({"sha256": sha256(&f.bytes), "size": size, "pointerSize": 134});
            }
            entry
        };
        json!({"id": REPO, "sha": COMMIT, "siblings": state.files.iter().map(sibling).collect::<Vec<_>>()})
    }

    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut out = stream.try_clone()?;
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let asked = Asked {
            path: path.clone(),
            range: headers.get("range").cloned(),
            authorization: headers.get("authorization").cloned(),
        };
        let wanted = {
            let mut state = self.state.lock().unwrap();
            state.asked.push(asked.clone());
            state.token.as_ref().map(|token| format!("Bearer {token}"))
        };
        if wanted.is_some() && wanted != asked.authorization {
            return plain(&mut out, 401, b"");
        }
        if path == format!("/api/models/{REPO}/revision/main?blobs=true") {
            return plain(&mut out, 200, self.listing().to_string().as_bytes());
        }
        let name =
            path.strip_prefix(&format!("/{REPO}/resolve/{COMMIT}/")).map(|name| name.replace("%20", " "));
        let file = name.as_ref().and_then(|name| self.take(name));
        match file {
            None => plain(&mut out, 404, b"Entry not found"),
            Some((Some(status), _, _)) => plain(&mut out, status, b""),
            Some((None, cut, file)) => send(&mut out, &file, cut, asked.range.as_deref()),
        }
    }

    /// The file, the error to answer with and where to cut, if at all.
    fn take(&self, name: &str) -> Option<(Option<u16>, Option<usize>, Served)> {
        let mut state = self.state.lock().unwrap();
        let file = state.files.get_mut(name)?;
        if file.errors.1 > 0 {
            file.errors.1 -= 1;
            return Some((Some(file.errors.0), None, file.clone()));
        }
        let cut = (file.cuts.1 > 0).then(|| {
            file.cuts.1 -= 1;
            file.cuts.0
        });
        Some((None, cut, file.clone()))
    }
}

fn plain(out: &mut TcpStream, status: u16, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    out.write_all(&[head.as_bytes(), body].concat())
}

fn send(out: &mut TcpStream, file: &Served, cut: Option<usize>, range: Option<&str>) -> std::io::Result<()> {
    let bytes = file.instead.as_ref().unwrap_or(&file.bytes);
    let start =
        range.filter(|_| file.ranges).and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let etag = file
        .etag
        .clone()
        .unwrap_or_else(|| if file.large { sha256(&file.bytes) } else { git_hash(&file.bytes) });
    let (status, begin) = match start {
        Some(start) if start >= bytes.len() => return plain(out, 416, b""),
        Some(start) => (206, start),
        None => (200, 0),
    };
    let body = &bytes[begin..];
    let mut head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nETag: \"{etag}\"\r\nConnection: close\r\n",
        body.len()
    );
    if status == 206 {
        head += &format!("Content-Range: bytes {begin}-{}/{}\r\n", bytes.len() - 1, bytes.len());
    }
    out.write_all((head + "\r\n").as_bytes())?;
    for block in body[..cut.unwrap_or(body.len()).min(body.len())].chunks(1000) {
        out.write_all(block)?;
        if !file.pause.is_zero() {
            std::thread::sleep(file.pause);
        }
    }
    Ok(())
}
