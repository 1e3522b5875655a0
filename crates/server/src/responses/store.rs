//! Replies kept in memory, so that later requests may read them or go on from them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use serde_json::Value;

use crate::ApiError;
use crate::auth::Owner;

/// Most replies kept.
const REPLIES: usize = 1024;
/// Most bytes kept, counted as JSON text.
const BYTES: usize = 64 << 20;

struct Kept {
    owner: Owner,
    id: String,
    /// The reply as it was answered.
    reply: Value,
    /// The items before it.
    items: Vec<Value>,
    bytes: usize,
}

#[derive(Default)]
struct Shelf {
    /// The oldest first.
    kept: VecDeque<Kept>,
    bytes: usize,
}

/// Replies that belong to a key or an address. The oldest make place for new ones.
#[derive(Default)]
pub(crate) struct Store(Mutex<Shelf>);

impl Shelf {
    fn remove(&mut self, place: usize) -> Option<Kept> {
        let kept = self.kept.remove(place)?;
        self.bytes -= kept.bytes;
        Some(kept)
    }

    fn place(&self, owner: Owner, id: &str) -> Option<usize> {
        self.kept.iter().position(|kept| kept.id == id && kept.owner == owner)
    }
}

/// Length of a value's JSON text.
fn length(value: &Value) -> usize {
    value.to_string().len()
}

impl Store {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a reply to these items can be kept at all.
    pub(super) fn takes(items: &[Value]) -> bool {
        items.iter().map(length).sum::<usize>() <= BYTES / 2
    }

    /// Keeps a reply to `items`.
    pub(super) fn keep(&self, owner: Owner, id: &str, reply: Value, items: Vec<Value>) {
        let bytes = length(&reply) + items.iter().map(length).sum::<usize>();
        let mut shelf = self.shelf();
        shelf.bytes += bytes;
        shelf.kept.push_back(Kept { owner, id: id.to_owned(), reply, items, bytes });
        while shelf.kept.len() > REPLIES || shelf.bytes > BYTES {
            shelf.remove(0);
        }
    }

    /// The reply, as it was answered.
    pub(super) fn reply(&self, owner: Owner, id: &str) -> Result<Value, ApiError> {
        let shelf = self.shelf();
        let place = shelf.place(owner, id).ok_or_else(|| unknown(id))?;
        Ok(shelf.kept[place].reply.clone())
    }

    /// Forgets a reply.
    pub(super) fn forget(&self, owner: Owner, id: &str) -> Result<(), ApiError> {
        let mut shelf = self.shelf();
        let place = shelf.place(owner, id).ok_or_else(|| unknown(id))?;
        shelf.remove(place);
        Ok(())
    }

    /// The conversation up to a reply, the reply included.
    pub(super) fn conversation(&self, owner: Owner, id: &str) -> Result<Vec<Value>, ApiError> {
        let shelf = self.shelf();
        let Some(place) = shelf.place(owner, id) else {
            let error = ApiError::field("previous_response_id", format!("no response {id:?} is kept"));
            return Err(ApiError { code: Some("previous_response_not_found"), ..error });
        };
        let Kept { reply, items, .. } = &shelf.kept[place];
        let output = reply["output"].as_array().into_iter().flatten();
        Ok(items.iter().chain(output).cloned().collect())
    }
}

fn unknown(id: &str) -> ApiError {
    ApiError::status(StatusCode::NOT_FOUND, format!("no response {id:?} is kept"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MINE: Owner = Owner::Key(0);

    fn keep(store: &Store, id: &str, text: &str) {
        store.keep(MINE, id, json!({"output": [id]}), vec![json!(text)]);
    }

    #[test]
    fn a_reply_is_seen_by_its_owner_until_it_is_forgotten() {
        let store = Store::default();
        keep(&store, "a", "x");
        assert_eq!(store.reply(MINE, "a"), Ok(json!({"output": ["a"]})));
        assert_eq!(store.conversation(MINE, "a"), Ok(vec![json!("x"), json!("a")]));
        let other = Owner::Key(1);
        assert_eq!(store.reply(other, "a").unwrap_err().status, StatusCode::NOT_FOUND);
        assert_eq!(store.forget(other, "a").unwrap_err().status, StatusCode::NOT_FOUND);
        let error = store.conversation(other, "a").unwrap_err();
        assert_eq!(
            (error.status, error.code),
            (StatusCode::BAD_REQUEST, Some("previous_response_not_found"))
        );
        assert_eq!(store.forget(MINE, "a"), Ok(()));
        assert!(store.reply(MINE, "a").is_err());
        assert_eq!(store.shelf().bytes, 0);
    }

    #[test]
    fn the_oldest_make_place_by_number_and_by_bytes() {
        let store = Store::default();
        for i in 0..=REPLIES {
            keep(&store, &i.to_string(), "");
        }
        assert!(store.reply(MINE, "0").is_err());
        assert!(store.reply(MINE, "1").is_ok());
        let long = "x".repeat(BYTES / 2 - 100);
        for id in ["long", "longer"] {
            keep(&store, id, &long);
        }
        assert!(store.reply(MINE, "long").is_ok());
        keep(&store, "longest", &long);
        assert!(store.reply(MINE, "long").is_err());
        assert!(store.reply(MINE, "longest").is_ok());
        let shelf = store.shelf();
        assert_eq!(shelf.bytes, shelf.kept.iter().map(|kept| kept.bytes).sum::<usize>());
        assert!(shelf.bytes <= BYTES);
    }
}
