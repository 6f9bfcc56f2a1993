//! A setting: its name and its default value.

/// A setting that a file or a variable may have.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its path in a file, with dots: `flows.columns`.
    pub key: String,
    /// Its value without any layer; `None`: none.
    pub default: Option<String>,
    /// One line of help.
    pub about: String,
}
