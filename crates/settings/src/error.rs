//! What is wrong with an environment.

/// A value that stops the start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Not one of the accepted forms.
    #[error("{name}=\"{text}\": expected {expected}")]
    Malformed {
        /// The setting.
        name: &'static str,
        /// Its value, trimmed, control characters escaped.
        text: String,
        /// The accepted forms.
        expected: String,
    },
}

/// A variable that looks like a setting and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is no setting; the nearest is {nearest}")]
pub struct UnknownSetting {
    /// The variable.
    pub name: String,
    /// The setting with the closest name.
    pub nearest: &'static str,
}
