//! Stores of `sockeye record`, and the moment of one that a listing lists in place of the kernel's sockets. `look_back` finds it, `replay`
//! lists it.

use crate::when;
use anyhow::{Context, bail};
use sockeye_console::usage::UsageError;
use sockeye_history::{Gap, GapReason};
use sockeye_model::NetnsInode;
use sockeye_output::Envelope;
use sockeye_store::{Moment, Nearest, StoreError, StoreReader, Toward};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A recorded moment.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) moment: Moment,
    pub(crate) envelope: Envelope,
    /// The network namespaces that `--netns` names, by their recorded names; `None`: those that have the inode.
    pub(crate) selected: Option<HashSet<NetnsInode>>,
}

/// Returns the store that `--store` names, or the one that is used without it.
///
/// # Errors
/// If there is no home folder to look in.
pub fn store_path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let Some(own) = sockeye_store::default_path() else {
        let text = "sockeye: neither XDG_STATE_HOME nor HOME names a folder: --store names the file\n";
        return Err(UsageError(text.to_owned()).into());
    };
    Ok(own)
}

/// Returns the store that a command reads. A user without a recorder reads that of the host, if permitted.
///
/// # Errors
/// As [`store_path`].
pub fn readable_store(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let host = Path::new(sockeye_store::HOST_STORE);
    let is_there = |path: &Path| path.try_exists().unwrap_or(true);
    match store_path(named) {
        Ok(path) if named.is_some() || is_there(&path) || !is_there(host) => Ok(path),
        Err(error) if !is_there(host) => Err(error),
        _ => Ok(host.to_owned()),
    }
}

/// Opens the store that a command reads.
///
/// # Errors
/// If there is none, or it may not be read.
pub fn open_store(named: Option<&Path>) -> anyhow::Result<StoreReader> {
    Ok(StoreReader::open(&readable_store(named)?)?)
}

/// Adds the path of a store to an error of reading it, if it has none.
///
/// # Errors
/// The same as before.
pub fn name_store<T>(named: Option<&Path>, read: anyhow::Result<T>) -> anyhow::Result<T> {
    read.map_err(|error| {
        let lacks_file = |error: &StoreError| !error.names_file();
        match readable_store(named) {
            Ok(path) if error.downcast_ref().is_some_and(lacks_file) => {
                error.context(path.display().to_string())
            }
            _ => error,
        }
    })
}

/// The sample before another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previous {
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The gap between the two.
    pub gap: Option<Gap>,
}

impl Previous {
    /// Whether counters of both can be compared: not across a boot, and not if the time between them is not known.
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        self.gap
            .as_ref()
            .is_none_or(|gap| matches!(gap.reason, GapReason::Late))
    }
}

/// Returns the sample before that of a time; `None`: it is the first one.
///
/// # Errors
/// If the store is damaged.
pub fn previous(store: &StoreReader, at_ms: u64) -> anyhow::Result<Option<Previous>> {
    let Some(before_ms) = store.next_sample(at_ms, Toward::Past)? else {
        return Ok(None);
    };
    Ok(Some(Previous {
        at_ms: before_ms,
        gap: store.gaps_within((before_ms, at_ms))?.pop(),
    }))
}

/// Returns the moment of a store that answers for a time as it was typed; `now` is the last one. `option`: where it was typed.
///
/// # Errors
/// If the time cannot be understood, or nothing is recorded of it.
pub fn moment_at(store: &StoreReader, text: &str, option: &str) -> anyhow::Result<Moment> {
    if text.trim() == "now" {
        return store.last()?.context("nothing is recorded yet");
    }
    let at_ms = when::parse(text, &when::now())
        .map_err(|error| UsageError(format!("sockeye: {option}: {error}\n")))?;
    moment(store, at_ms)
}

/// Returns the moment of a store that answers for a time.
///
/// # Errors
/// If nothing is recorded of it: what is nearest.
pub fn moment(store: &StoreReader, at_ms: u64) -> anyhow::Result<Moment> {
    match store.at(at_ms)? {
        Nearest::Sample(moment) => Ok(moment),
        nearest => bail!(absence(&nearest, at_ms).unwrap_or_default()),
    }
}

/// Returns why nothing is recorded of a time, in words, with what is nearest; `None`: a sample answers for it.
#[must_use]
pub fn absence<S>(nearest: &Nearest<S>, at_ms: u64) -> Option<String> {
    let local = when::local;
    let nothing = format!("nothing is recorded of {}", local(at_ms));
    Some(match nearest {
        Nearest::Sample(_) => return None,
        Nearest::Gap(Gap {
            from_ms,
            to_ms,
            reason,
        }) => format!(
            "{nothing}: from {} to {} there is a gap ({})",
            local(*from_ms),
            local(*to_ms),
            reason.name()
        ),
        Nearest::Before(first_ms) => format!("{nothing}: the first sample is of {}", local(*first_ms)),
        Nearest::After(last_ms) => format!("{nothing}: the last sample is of {}", local(*last_ms)),
        Nearest::Nothing => "nothing is recorded yet".to_owned(),
    })
}

/// Returns the network namespaces that `--netns` means, of which these are the recorded names: those with this name, or this inode.
/// `None`: it is a process or a path.
pub(crate) fn namespaces_named<'a>(
    text: &str,
    names: impl IntoIterator<Item = (&'a NetnsInode, &'a String)>,
) -> Option<HashSet<NetnsInode>> {
    let named = names.into_iter().filter(|(_, name)| *name == text);
    let digits = text.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']'));
    let number = digits.unwrap_or(text).parse().ok();
    let inode = number.filter(|number| *number >= FIRST_INODE).map(NetnsInode);
    let found: HashSet<_> = named.map(|(netns, _)| *netns).chain(inode).collect();
    let is_of_now = found.is_empty() && (number.is_some() || text.contains('/'));
    (!is_of_now).then_some(found)
}

/// The least inode of a namespace: `PROC_DYNAMIC_FIRST` of the kernel's `fs/proc/generic.c`.
const FIRST_INODE: u32 = 0xF000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_late_sample_is_compared_across_a_gap() {
        let is_comparable = |reason: Option<GapReason>| {
            let gap = reason.map(|reason| Gap {
                from_ms: 0,
                to_ms: 9,
                reason,
            });
            Previous { at_ms: 0, gap }.is_comparable()
        };
        assert!(is_comparable(None) && is_comparable(Some(GapReason::Late)));
        for reason in [GapReason::Reboot, GapReason::Suspended, GapReason::NotRunning] {
            assert!(!is_comparable(Some(reason)), "{reason:?}");
        }
    }
}
