//! Names of network namespaces on the command line.

use anyhow::Context;
use sockeye_console::usage::UsageError;
use sockeye_model::{InvalidNetnsName, NetnsName};
use std::ffi::{OsStr, OsString};

/// Parses the name of an existing namespace.
pub(crate) fn existing(name: &OsStr) -> Result<NetnsName, UsageError> {
    NetnsName::of_file(name).map_err(|error| invalid(name, error))
}

/// Parses the name of a namespace to create.
pub(crate) fn new(name: OsString) -> Result<NetnsName, UsageError> {
    NetnsName::new(name.clone()).map_err(|error| invalid(&name, error))
}

/// Returns the existing names that begin with `prefix`, or all, in natural order.
pub(crate) fn all(prefix: Option<&OsStr>) -> anyhow::Result<Vec<NetnsName>> {
    if let Some(prefix) = prefix {
        refuse_empty(prefix)?;
    }
    let all =
        sockeye_source::netns::names().with_context(|| format!("read the folder {}", NetnsName::FOLDER))?;
    let prefix = prefix.unwrap_or_default().as_encoded_bytes();
    let selected = all
        .into_iter()
        .filter(|name| name.as_encoded_bytes().starts_with(prefix));
    // Every entry of a folder has the name of a file.
    Ok(selected
        .filter_map(|name| NetnsName::of_file(name).ok())
        .collect())
}

/// Refuses `--prefix "$P"` with an unset variable, which would select all.
pub(crate) fn refuse_empty(prefix: &OsStr) -> Result<(), UsageError> {
    if prefix.is_empty() {
        return Err(UsageError(
            "sockeye: --prefix is empty; --all selects all, where that is an option\n".to_owned(),
        ));
    }
    Ok(())
}

fn invalid(name: &OsStr, error: InvalidNetnsName) -> UsageError {
    UsageError(format!(
        "sockeye: {name:?} is not a valid name of a network namespace: {error}\n"
    ))
}
