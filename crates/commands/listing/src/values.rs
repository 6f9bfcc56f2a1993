//! Parsers of `--sort` and `--group-by`.

use sockeye_flow::SortKey;
use sockeye_model::GroupBy;

/// `--sort`, understood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorting {
    pub(crate) key: SortKey,
    pub(crate) descending: bool,
}

/// A key, with `-` before it the other way round.
pub(crate) fn sorting(text: &str) -> Result<Sorting, String> {
    let (name, reversed) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let found = SortKey::NAMES.iter().find(|(known, _)| *known == name);
    let (_, key) = found.ok_or_else(|| {
        let known: Vec<_> = SortKey::NAMES.iter().map(|(known, _)| *known).collect();
        format!("no such key; there are {}", known.join(", "))
    })?;
    Ok(Sorting {
        key: *key,
        descending: key.largest_first() != reversed,
    })
}

/// `host`, `port`, `process`, `uid`, `netns`, `prefix/N` or `prefix/N,M`.
pub(crate) fn group_by(text: &str) -> Result<GroupBy, String> {
    match text {
        "host" => return Ok(GroupBy::Host),
        "port" => return Ok(GroupBy::Port),
        "process" => return Ok(GroupBy::Process),
        "uid" => return Ok(GroupBy::Uid),
        "netns" => return Ok(GroupBy::Netns),
        _ => {}
    }
    let known = "expected host, port, process, uid, netns, prefix/N or prefix/N,M";
    let lengths = text.strip_prefix("prefix/").ok_or(known)?;
    let (v4, v6) = lengths.split_once(',').unwrap_or((lengths, "64"));
    let length = |text: &str, most: u8| {
        text.parse::<u8>()
            .ok()
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("expected a length of 0 to {most} bits, found {text:?}"))
    };
    Ok(GroupBy::Prefix {
        v4: length(v4, 32)?,
        v6: length(v6, 128)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lengths_are_bounded() {
        assert_eq!(group_by("prefix/24"), Ok(GroupBy::Prefix { v4: 24, v6: 64 }));
        assert_eq!(group_by("prefix/0,128"), Ok(GroupBy::Prefix { v4: 0, v6: 128 }));
        for bad in [
            "",
            "hosts",
            "prefix",
            "prefix/",
            "prefix/33",
            "prefix/24,129",
            "prefix/-1",
        ] {
            assert!(group_by(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_sort_largest_first_and_names_do_not() {
        assert!(sorting("connections").unwrap().descending);
        assert!(!sorting("-connections").unwrap().descending);
        assert!(!sorting("peer").unwrap().descending);
        assert!(sorting("-peer").unwrap().descending);
        assert!(sorting("size").is_err());
    }
}
