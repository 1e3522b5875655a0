//! A hub, a repository on it, and the files of a revision.

use std::path::{Component, Path};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;
use ureq::http::Response;
use ureq::{Body, RequestBuilder, typestate::WithoutBody};

use crate::{Digest, HubError};

const CONNECT: Duration = Duration::from_secs(15);
const HEAD: Duration = Duration::from_secs(60);
/// Longest life of one connection's body; a download goes on over the next.
const BODY: Duration = Duration::from_secs(120);

/// A repository: `OWNER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    owner: String,
    name: String,
}

impl Repo {
    /// The part after the owner.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Display for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// Letters, digits and marks, not only dots: what is safe in an address and as a folder.
fn is_word(word: &str) -> bool {
    let marks = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    word.bytes().all(marks) && word.bytes().any(|b| b != b'.')
}

impl FromStr for Repo {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Self, HubError> {
        match text.split_once('/') {
            Some((owner, name)) if is_word(owner) && is_word(name) => {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            _ => Err(HubError::Repo(text.to_owned())),
        }
    }
}

/// A hub at an address.
#[derive(Clone)]
pub struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// One file of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the repository.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// Its hash.
    pub digest: Digest,
}

/// The files of one revision.
#[derive(Clone)]
pub struct Listing {
    pub(crate) hub: Hub,
    /// The repository.
    pub repo: Repo,
    /// The commit that the revision stood for.
    pub commit: String,
    /// The files, the largest first.
    pub files: Vec<RemoteFile>,
}

#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Whether a path of the repository stays inside the folder that it is joined to.
fn stays_inside(path: &str) -> bool {
    let plain = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
    plain && !path.is_empty() && !path.contains(['\\', '\0']) && !path.starts_with(crate::PARTS)
}

impl Sibling {
    fn file(self) -> Result<RemoteFile, HubError> {
        let Self { rfilename: path, size, blob_id, lfs } = self;
        if !stays_inside(&path) {
            return Err(HubError::Path(path));
        }
        let known = match (lfs, size, blob_id) {
            (Some(lfs), ..) if is_hex(&lfs.sha256, 64) => Some((lfs.size, Digest::Sha256(lfs.sha256))),
            (None, Some(size), Some(blob)) if is_hex(&blob, 40) => Some((size, Digest::GitBlob(blob))),
            _ => None,
        };
        let (size, digest) = known.ok_or_else(|| {
            HubError::Answer(path.clone(), "the listing gives no size or no hash".to_owned())
        })?;
        Ok(RemoteFile { path, size, digest })
    }
}

/// A path as a part of an address.
fn escaped(path: &str) -> String {
    path.bytes().fold(String::new(), |mut out, b| {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b'/') {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
        out
    })
}

impl Hub {
    /// The hub at `endpoint`, such as `https://huggingface.co`; `token` opens what is not public.
    ///
    /// # Errors
    /// An address of another kind.
    pub fn new(endpoint: &str, token: Option<&str>) -> Result<Self, HubError> {
        let endpoint = endpoint.trim_end_matches('/');
        if !["https://", "http://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            return Err(HubError::Endpoint(endpoint.to_owned()));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(HEAD))
            .timeout_recv_body(Some(BODY))
            .user_agent(concat!("tokenfare/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = Agent::new_with_config(config);
        Ok(Self { agent, endpoint: endpoint.to_owned(), token: token.map(str::to_owned) })
    }

    fn request(&self, url: &str) -> RequestBuilder<WithoutBody> {
        let request = self.agent.get(url);
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// The files of `revision`: a branch, a tag or a commit.
    ///
    /// # Errors
    /// A repository that is not there or not open, a failing connection, or an answer that is no listing.
    pub fn list(&self, repo: &Repo, revision: &str) -> Result<Listing, HubError> {
        // A branch may have slashes, which stand for themselves in a name only when escaped.
        let word = escaped(revision).replace('/', "%2F");
        let url = format!("{}/api/models/{repo}/revision/{word}?blobs=true", self.endpoint);
        let what = format!("{repo} at {revision}");
        let mut response =
            self.request(&url).call().map_err(|e| HubError::Network(what.clone(), Box::new(e)))?;
        check_status(&what, &response)?;
        let text = response.body_mut().read_to_string();
        let text = text.map_err(|e| HubError::Network(what.clone(), Box::new(e)))?;
        let answer: Answer = serde_json::from_str(&text)
            .map_err(|e| HubError::Answer(what.clone(), format!("no listing: {e}")))?;
        if !is_hex(&answer.sha, 40) {
            return Err(HubError::Answer(what, format!("expected a commit, found {:?}", answer.sha)));
        }
        let mut files = answer.siblings.into_iter().map(Sibling::file).collect::<Result<Vec<_>, _>>()?;
        files.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
        Ok(Listing { hub: self.clone(), repo: repo.clone(), commit: answer.sha, files })
    }
}

/// Refuses an answer that is neither a whole body nor a part of one.
pub(crate) fn check_status(what: &str, response: &Response<Body>) -> Result<(), HubError> {
    match response.status().as_u16() {
        200 | 206 => Ok(()),
        404 => Err(HubError::NotFound(what.to_owned())),
        status @ (401 | 403) => Err(HubError::Refused(what.to_owned(), status)),
        status => Err(HubError::Status(what.to_owned(), status)),
    }
}

impl Listing {
    /// Asks for the bytes of `file` from `start` on.
    pub(crate) fn open(&self, file: &RemoteFile, start: u64) -> Result<Response<Body>, ureq::Error> {
        let Self { hub, repo, commit, .. } = self;
        let url = format!("{}/{repo}/resolve/{commit}/{}", hub.endpoint, escaped(&file.path));
        let request = hub.request(&url);
        if start > 0 { request.header("range", format!("bytes={start}-")).call() } else { request.call() }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("owner/name", true)]
    #[case("deepseek-ai/DeepSeek-V4.1_x", true)]
    #[case("name", false)]
    #[case("a/b/c", false)]
    #[case("../name", false)]
    #[case("owner/..", false)]
    #[case("owner/", false)]
    #[case("own er/name", false)]
    fn repositories(#[case] text: &str, #[case] good: bool) {
        assert_eq!(text.parse::<Repo>().map(|r| r.to_string()).ok(), good.then(|| text.to_owned()));
    }

    #[rstest]
    #[case("config.json", true)]
    #[case("a/b.safetensors", true)]
    #[case("../x", false)]
    #[case("a/../../x", false)]
    #[case("/etc/passwd", false)]
    #[case("a\\..\\x", false)]
    #[case("", false)]
    #[case(".tokenfare-parts/x", false)]
    fn paths_stay_inside(#[case] path: &str, #[case] good: bool) {
        assert_eq!(stays_inside(path), good);
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escaped("a b/ü?.json"), "a%20b/%C3%BC%3F.json");
        assert!(matches!(Hub::new("ftp://x", None), Err(HubError::Endpoint(_))));
    }
}
