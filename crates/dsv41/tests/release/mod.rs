//! Where the release's tokenizer is, which is not in the repository: `recipes/tokenizer` builds it.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use tokenfare_dsv41::tokenizer::Tokenizer;

/// The release's tokenizer: in the folder that `TOKENFARE_REAL_TOKENIZER` names, else in `target/tokenizer`.
///
/// Without the variable and the folder it says that nothing was tested, and returns none.
pub fn tokenizer() -> Option<Tokenizer> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tokenizer");
    let folder = match std::env::var_os("TOKENFARE_REAL_TOKENIZER") {
        Some(named) => PathBuf::from(named),
        None if built.join("tokenizer.json").is_file() => built,
        None => {
            println!("skipped, nothing was tested: no target/tokenizer (python3 recipes/tokenizer/build.py)");
            return None;
        }
    };
    Some(Tokenizer::open(&folder, 129_280).unwrap())
}
