//! A request's body after a digit that names its route, through every layer of the API.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tokenfare_server::testkit::Bodies;

static BODIES: LazyLock<Bodies> = LazyLock::new(Bodies::new);

fuzz_target!(|bytes: &[u8]| {
    BODIES.ask(bytes);
});
