//! Messages of a chat, read and encoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenfare_dsv41::chat::{ChatOptions, Conversation};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(messages) = serde_json::from_slice(bytes)
        && let Ok(conversation) = Conversation::from_json(&messages)
    {
        let _ = conversation.encode(&ChatOptions::default());
    }
});
