//! What a user can have written down of rounds: the accept log and the round profile.

mod accept_log;
mod profile;

use anyhow::Result;
use tokenfare_lanes::{Explore, LanesConfig, Observer};
use tokenfare_pricing::log::LoggedStart;
use tokenfare_settings::LogSettings;

use accept_log::AcceptLog;
use profile::Profile;
pub use profile::TARGET as PROFILE_TARGET;

/// What is to be watched, with its file open.
pub struct Watch {
    log: Option<AcceptLog>,
    explore: u64,
    profile: bool,
}

impl Watch {
    /// Opens what the settings name, before anything is loaded.
    ///
    /// # Errors
    /// A log that cannot be opened, with the setting, the path and the cause.
    pub fn open(settings: &LogSettings) -> Result<Self> {
        let log = settings.accept_log.as_deref().map(AcceptLog::open).transpose()?;
        Ok(Self { log, explore: settings.explore, profile: settings.round_prof })
    }

    /// Adds its observers, after one that is there, and its exploring rounds to an engine that drafts `block` tokens a
    /// pass.
    pub fn attach(self, config: &mut LanesConfig, block: usize) -> Result<()> {
        let mut observers: Vec<Box<dyn Observer>> = config.observer.take().into_iter().collect();
        if let Some(log) = self.log {
            let start = LoggedStart::new(&config.depth, &config.table, block, self.explore);
            observers.push(Box::new(log.start(start)?));
        }
        if self.profile {
            observers.push(Box::new(Profile::default()));
        }
        if !observers.is_empty() {
            config.observer = Some(Box::new(observers));
        }
        if self.explore > 0 {
            config.oracle = Some(Box::new(Explore { every: self.explore }));
        }
        Ok(())
    }
}
