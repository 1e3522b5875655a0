//! Downloads from a hub on this machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use rstest::rstest;
use support::{COMMIT, FakeHub, REPO, Served, bytes, sha256};
use tokenfare_hub::{Hub, HubError, Listing, Progress, Pulled, Silent};

const BIG: &str = "model.safetensors";

fn served(len: usize) -> Served {
    Served::new(bytes(len, 7), true)
}

fn list(hub: &FakeHub) -> Result<Listing, HubError> {
    Hub::new(&hub.endpoint, None).unwrap().list(&REPO.parse().unwrap(), "main")
}

fn pull(hub: &FakeHub, folder: &Path) -> Result<Pulled, HubError> {
    list(hub)?.pull(folder, 3, &Silent)
}

fn part(folder: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let parts = folder.join(".tokenfare-parts");
    std::fs::create_dir_all(&parts).unwrap();
    parts.join(sha256(bytes))
}

fn ranges(hub: &FakeHub) -> Vec<Option<String>> {
    hub.asked(BIG).into_iter().map(|a| a.range).collect()
}

#[derive(Default)]
struct Counted {
    bytes: AtomicI64,
    files: Mutex<Vec<String>>,
}

impl Progress for Counted {
    fn advance(&self, bytes: u64) {
        self.bytes.fetch_add(bytes as i64, Ordering::SeqCst);
    }

    fn take_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes as i64, Ordering::SeqCst);
    }

    fn finished(&self, file: &str) {
        self.files.lock().unwrap().push(file.to_owned());
    }
}

#[test]
fn every_file_arrives_and_a_second_pull_fetches_nothing() {
    let files = [
        (BIG, served(300_000)),
        ("config.json", Served::new(b"{}".to_vec(), false)),
        ("sub dir/empty", Served::new(Vec::new(), false)),
        ("twin", served(300_000)),
    ];
    let hub = FakeHub::start(&files);
    let folder = tempfile::tempdir().unwrap();
    let listing = list(&hub).unwrap();
    assert_eq!((listing.commit.as_str(), listing.bytes(), listing.files.len()), (COMMIT, 600_002, 4));
    let counted = Counted::default();
    let pulled = listing.pull(folder.path(), 3, &counted).unwrap();
    assert_eq!(pulled, Pulled { kept: 0, fetched: 4, bytes: 600_002 });
    for (name, file) in &files {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), file.bytes, "{name}");
    }
    assert!(!folder.path().join(".tokenfare-parts").exists());
    assert_eq!((counted.bytes.into_inner(), counted.files.into_inner().unwrap().len()), (600_002, 4));
    let asked = hub.asked("").len();
    assert_eq!(pull(&hub, folder.path()).unwrap(), Pulled { kept: 4, fetched: 0, bytes: 0 });
    assert_eq!(hub.asked("").len(), asked + 1);
}

#[test]
fn a_cut_connection_goes_on_where_it_ended() {
    let hub = FakeHub::start(&[(BIG, Served { cuts: (100_000, 2), ..served(250_000) })]);
    let folder = tempfile::tempdir().unwrap();
    pull(&hub, folder.path()).unwrap();
    assert_eq!(std::fs::read(folder.path().join(BIG)).unwrap(), bytes(250_000, 7));
    let expected = [None, Some("bytes=100000-".to_owned()), Some("bytes=200000-".to_owned())];
    assert_eq!(ranges(&hub), expected);
}

#[test]
fn an_earlier_attempt_is_taken_up() {
    let all = bytes(50_000, 7);
    let hub = FakeHub::start(&[(BIG, served(50_000))]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(part(folder.path(), &all), &all[..20_000]).unwrap();
    assert_eq!(pull(&hub, folder.path()).unwrap(), Pulled { kept: 0, fetched: 1, bytes: 30_000 });
    assert_eq!(ranges(&hub), [Some("bytes=20000-".to_owned())]);
    assert_eq!(std::fs::read(folder.path().join(BIG)).unwrap(), all);
}

#[test]
fn a_hub_without_parts_sends_all_of_it() {
    let all = bytes(50_000, 7);
    let hub = FakeHub::start(&[(BIG, Served { ranges: false, ..served(50_000) })]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(part(folder.path(), &all), &all[..20_000]).unwrap();
    let counted = Counted::default();
    list(&hub).unwrap().pull(folder.path(), 1, &counted).unwrap();
    assert_eq!(std::fs::read(folder.path().join(BIG)).unwrap(), all);
    assert_eq!((ranges(&hub).len(), counted.bytes.into_inner()), (1, 50_000));
}

#[test]
fn a_part_that_is_too_long_is_begun_anew() {
    let all = bytes(5_000, 7);
    let hub = FakeHub::start(&[(BIG, served(5_000))]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(part(folder.path(), &all), bytes(6_000, 1)).unwrap();
    pull(&hub, folder.path()).unwrap();
    assert_eq!(std::fs::read(folder.path().join(BIG)).unwrap(), all);
}

#[test]
fn bytes_of_the_wrong_hash_are_deleted_and_the_next_attempt_is_whole() {
    let all = bytes(5_000, 7);
    let hub = FakeHub::start(&[(BIG, served(5_000))]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(part(folder.path(), &all), bytes(2_000, 1)).unwrap();
    let error = pull(&hub, folder.path()).unwrap_err();
    let HubError::Hash { file, expected, found } = &error else { panic!("{error}") };
    assert_eq!((file.as_str(), expected), (BIG, &sha256(&all)));
    assert_ne!(expected, found);
    assert!(!part(folder.path(), &all).exists() && !folder.path().join(BIG).exists());
    pull(&hub, folder.path()).unwrap();
    assert_eq!(std::fs::read(folder.path().join(BIG)).unwrap(), all);
}

#[rstest]
#[case(true)]
#[case(false)]
fn wrong_bytes_of_the_hub_are_refused(#[case] large: bool) {
    let file = Served { instead: Some(bytes(900, 2)), ..Served::new(bytes(900, 1), large) };
    let hub = FakeHub::start(&[("file", file)]);
    let folder = tempfile::tempdir().unwrap();
    let error = pull(&hub, folder.path()).unwrap_err();
    assert!(matches!(error, HubError::Hash { .. }), "{error}");
    assert!(!folder.path().join("file").exists());
}

#[test]
fn a_file_that_changed_since_the_listing_is_told_before_its_bytes_come() {
    let other = sha256(b"other");
    let hub = FakeHub::start(&[(BIG, Served { etag: Some(other.clone()), ..served(900) })]);
    let error = pull(&hub, tempfile::tempdir().unwrap().path()).unwrap_err();
    let HubError::Changed { expected, found, .. } = &error else { panic!("{error}") };
    assert_eq!((expected, found), (&sha256(&bytes(900, 7)), &other));
}

#[test]
fn a_local_file_that_changed_is_fetched_again() {
    let hub = FakeHub::start(&[(BIG, served(900))]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(BIG), bytes(900, 1)).unwrap();
    assert_eq!(pull(&hub, folder.path()).unwrap(), Pulled { kept: 0, fetched: 1, bytes: 900 });
    assert_eq!(std::fs::read(folder.path().join(BIG)).unwrap(), bytes(900, 7));
}

#[rstest]
#[case(503, 2, true)]
#[case(503, 99, false)]
#[case(404, 1, false)]
#[case(403, 1, false)]
fn passing_errors_are_tried_again(#[case] status: u16, #[case] times: usize, #[case] arrives: bool) {
    let hub = FakeHub::start(&[(BIG, Served { errors: (status, times), ..served(900) })]);
    let pulled = pull(&hub, tempfile::tempdir().unwrap().path());
    match pulled {
        Ok(_) => assert!(arrives),
        Err(HubError::Status(file, found)) => {
            assert_eq!((arrives, file.as_str(), found), (false, BIG, status))
        }
        Err(HubError::NotFound(file)) => assert_eq!((status, file.as_str()), (404, BIG)),
        Err(HubError::Refused(file, found)) => assert_eq!((status, file.as_str(), found), (403, BIG, 403)),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(hub.asked(BIG).len(), if times > 5 { 5 } else { times + usize::from(arrives) });
}

#[test]
fn a_token_opens_what_is_closed() {
    let hub = FakeHub::start(&[(BIG, served(900))]);
    hub.close_without("secret");
    let error = list(&hub).err().unwrap();
    assert!(matches!(&error, HubError::Refused(what, 401) if what == "owner/name at main"), "{error}");
    let opened =
        Hub::new(&hub.endpoint, Some("secret")).unwrap().list(&REPO.parse().unwrap(), "main").unwrap();
    opened.pull(tempfile::tempdir().unwrap().path(), 1, &Silent).unwrap();
}

#[test]
fn what_is_not_there_is_named() {
    let hub = FakeHub::start(&[]);
    let client = Hub::new(&hub.endpoint, None).unwrap();
    let error = client.list(&"owner/other".parse().unwrap(), "v1").err().unwrap();
    assert_eq!(error.to_string(), "owner/other at v1: not found on the hub");
}
