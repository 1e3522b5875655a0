//! Which checkpoint this is, without reading its weights.

use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use super::{Checkpoint, CheckpointError, header, read_json_file};

impl Checkpoint {
    /// SHA-256 over `config.json` and the weight index, or, in a folder without an index, the shards' headers.
    /// Weights of the same names, shapes and places are not told apart.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn fingerprint(&self) -> Result<[u8; 32], CheckpointError> {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(&read_json_file(&self.dir.join("config.json"))?);
        let index = self.dir.join("model.safetensors.index.json");
        if index.exists() {
            add(&read_json_file(&index)?);
        } else {
            for shard in &self.shards {
                let io = |cause| CheckpointError::Io { path: shard.path.clone(), cause };
                let damaged = |cause| CheckpointError::Header { path: shard.path.clone(), cause };
                let mut prefix = [0; header::PREFIX as usize];
                shard.file.read_exact_at(&mut prefix, 0).map_err(io)?;
                let length = header::header_len(prefix, shard.bytes).map_err(damaged)?;
                let mut head = vec![0; length as usize];
                shard.file.read_exact_at(&mut head, 0).map_err(io)?;
                add(&head);
            }
        }
        Ok(hash.finalize().into())
    }
}
