//! Keys of the API: from flags, a file and the environment.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tokenfare_server::ApiKeys;
use tokenfare_settings::Secret;

/// Flags of who may use the API.
#[derive(Debug, Args)]
pub struct AccessArgs {
    /// A key that opens the API, sent as Authorization: Bearer KEY or x-api-key: KEY; may be repeated. Other users of this
    /// machine can see it in the list of processes: --api-key-file and TF_API_KEY keep it hidden
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// File of such keys, one a line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

fn of_file(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--api-key-file {}", path.display()))?;
    let keys: Vec<String> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    if keys.is_empty() {
        bail!("--api-key-file {}: expected at least one key", path.display());
    }
    Ok(keys)
}

impl AccessArgs {
    /// All keys; none leaves the API open.
    pub fn keys(&self, setting: Option<&Secret>) -> Result<ApiKeys> {
        let flags = ApiKeys::new(self.api_key.iter().map(String::as_str));
        flags.map_err(|e| anyhow::anyhow!("--api-key: {e}"))?;
        let file = self.api_key_file.as_deref().map(of_file).transpose()?.unwrap_or_default();
        let all = self.api_key.iter().chain(&file).map(String::as_str);
        ApiKeys::new(all.chain(setting.map(Secret::reveal)))
            .map_err(|e| anyhow::anyhow!("--api-key-file: {e}"))
    }
}

/// A warning if the API is open to other machines.
pub fn warning(address: IpAddr, keys: &ApiKeys) -> Option<String> {
    let open = keys.is_empty() && !address.to_canonical().is_loopback();
    open.then(|| {
        format!("{address} can be reached from other machines and no API key is set (--api-key-file)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_address_without_a_key_is_warned_of() {
        let key = ApiKeys::new(["k"]).unwrap();
        let warned = |address: &str, keys: &ApiKeys| warning(address.parse().unwrap(), keys).is_some();
        assert!(warned("0.0.0.0", &ApiKeys::default()) && warned("::", &ApiKeys::default()));
        assert!(warned("192.168.1.2", &ApiKeys::default()) && !warned("192.168.1.2", &key));
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!warned(local, &ApiKeys::default()), "{local}");
        }
    }
}
