//! Options that only Sockeye has, taken out before `ss`'s own are read.
//!
//! They cannot be abbreviated: `--so` is ss's `--socket`.

use super::installed;
use crate::output::SsLevel;
use sockeye_source::Choice;
use std::ffi::OsString;

/// Sockeye's own options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnOptions {
    /// `--source=WHICH`: where sockets are read from.
    pub(super) source: Option<Choice>,
    /// `--compat LEVEL`: the release of ss whose output this is; by default that of the installed one.
    pub(super) level: SsLevel,
}

impl OwnOptions {
    /// Returns the other words, and these options. The error is a text for stderr.
    pub(super) fn take(words: &[OsString]) -> Result<(Vec<OsString>, Self), String> {
        let (mut rest, mut source, mut level) = (Vec::with_capacity(words.len()), None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--") => {
                    rest.push(word.clone());
                    rest.extend(words.by_ref().cloned());
                }
                Some("--compat") => {
                    let name = words.next().map(|name| name.to_string_lossy());
                    level = Some(parse_level(&name.unwrap_or_default())?);
                }
                Some(text) if let Some(name) = text.strip_prefix("--compat=") => {
                    level = Some(parse_level(name)?);
                }
                Some(text) if let Some(name) = text.strip_prefix("--source=") => {
                    source = Some(parse_source(name)?);
                }
                _ => rest.push(word.clone()),
            }
        }
        let level = level.unwrap_or_else(installed::level);
        Ok((rest, Self { source, level }))
    }
}

fn parse_level(name: &str) -> Result<SsLevel, String> {
    let found = SsLevel::ALL.into_iter().find(|level| level.name() == name);
    found.ok_or_else(|| format!("sockeye ss: --compat is 6.1, 6.15 or 7.3, not {name:?}\n"))
}

fn parse_source(name: &str) -> Result<Choice, String> {
    Ok(match name {
        "auto" => Choice::Auto,
        "bpf" => Choice::Bpf,
        "diag" => Choice::Diag,
        "diag-v2" => Choice::DiagV2,
        "procfs" => Choice::Procfs,
        _ => {
            return Err(format!(
                "sockeye ss: --source is auto, bpf, diag, diag-v2 or procfs, not {name:?}\n"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_options_are_taken_out_up_to_the_dashes() {
        let take = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let (rest, own) = OwnOptions::take(&words)?;
            let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
            Ok::<_, String>((rest.join(" "), own.level, own.source))
        };
        assert_eq!(
            take("-t --compat 6.15 --source=diag -n"),
            Ok(("-t -n".to_owned(), SsLevel::V6_15, Some(Choice::Diag)))
        );
        assert_eq!(
            take("--compat=7.3 -- --compat=6.1"),
            Ok(("-- --compat=6.1".to_owned(), SsLevel::V7_3, None))
        );
        for wrong in ["--compat", "--compat=", "--compat 7", "-t --source=x"] {
            assert!(take(wrong).is_err(), "{wrong}");
        }
    }
}
