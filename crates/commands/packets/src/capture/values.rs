//! Values of the options of `capture`.

use sockeye_filter::Quantity;

/// A parsed `--ring`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileRing {
    /// Number of files that are kept.
    pub(super) files: u32,
    /// Bytes after which the next file begins.
    pub(super) bytes: u64,
}

impl FileRing {
    /// Parses `5x10M`, or `5 x 10M` of several words, the later of which are at the beginning of the filter. Returns the
    /// number of these words too. No filter begins so.
    pub(super) fn parse_words(text: &str, filter: &[String]) -> Result<(Self, usize), String> {
        let mut words = text.to_owned();
        let mut used = 0;
        while used < filter.len() && used < 2 {
            let next = &filter[used];
            let is_more = match words.trim_end().strip_suffix(['x', 'X']) {
                Some(_) => next.starts_with(|c: char| c.is_ascii_digit()),
                None => {
                    let size = next.strip_prefix(['x', 'X']);
                    !words.contains(['x', 'X'])
                        && size.is_some_and(|size| {
                            size.is_empty() || size.starts_with(|c: char| c.is_ascii_digit())
                        })
                }
            };
            if !is_more {
                break;
            }
            words.push_str(next);
            used += 1;
        }
        Self::parse(&words).map(|ring| (ring, used))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected FILESxSIZE, like 10x100M".to_owned();
        let (files, size) = text.split_once(['x', 'X']).ok_or_else(expected)?;
        let files = files.trim().parse().map_err(|_| expected())?;
        let bytes = Quantity::Bytes.parse(size.trim()).ok_or_else(expected)?;
        if files == 0 {
            return Err("at least one file has to be kept".to_owned());
        }
        if bytes < FILE_BYTES_MIN {
            return Err(format!("a file has to have at least {FILE_BYTES_MIN} bytes"));
        }
        Ok(Self { files, bytes })
    }
}

/// Parses the bytes of each packet; 0 is the maximum.
pub(super) fn snaplen(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes| *bytes <= SNAPLEN_MAX);
    match bytes {
        Some(0) => Ok(SNAPLEN_MAX),
        Some(bytes) => Ok(bytes),
        None => Err(format!("expected a number of bytes, 0 to {SNAPLEN_MAX}")),
    }
}

/// Parses the size of the ring, in bytes; a bare number is KiB, as in tcpdump.
pub(super) fn buffer(text: &str) -> Result<u64, String> {
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if is_bare {
        text.parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024))
    } else {
        Quantity::Bytes.parse(text)
    };
    bytes
        .filter(|bytes| BUFFER_BYTES.contains(bytes))
        .ok_or_else(|| "expected a size from 256Ki to 2Gi; a bare number is KiB".to_owned())
}

/// The maximum of tcpdump, more than the longest packet.
const SNAPLEN_MAX: u32 = 262_144;
const FILE_BYTES_MIN: u64 = 4096;
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=2 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_files_and_size() {
        let check =
            |text, files, bytes| assert_eq!(FileRing::parse(text), Ok(FileRing { files, bytes }), "{text}");
        check("10x100M", 10, 100_000_000);
        check("1X64Ki", 1, 65536);
        check("3 x 5000", 3, 5000);
        for bad in [
            "", "x", "10", "10x", "x5M", "0x5M", "-1x5M", "2x100", "2x5Q", "2x5Mx3",
        ] {
            assert!(FileRing::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ring_of_several_words_uses_beginning_of_filter() {
        let check = |text: &str, filter: &str, expected: Option<usize>| {
            let filter: Vec<_> = filter.split_whitespace().map(str::to_owned).collect();
            let found = FileRing::parse_words(text, &filter);
            assert_eq!(
                found.map(|(ring, used)| (ring.files, ring.bytes, used)).ok(),
                expected.map(|used| (5, 10_000, used)),
                "{text} {filter:?}"
            );
        };
        check("5x10k", "", Some(0));
        check("5x10k", "tcp port 80", Some(0));
        check("5", "x 10k tcp", Some(2));
        check("5", "x10k tcp", Some(1));
        check("5x", "10k tcp", Some(1));
        check("5 x", "10k", Some(1));
        check("5", "", None);
        check("5", "x", None);
        check("5", "10k", None);
        check("5", "tcp port 80", None);
        check("5x", "tcp", None);
    }

    #[test]
    fn sizes_outside_of_limits_are_errors() {
        assert_eq!(snaplen("0"), Ok(SNAPLEN_MAX));
        assert_eq!(snaplen("64"), Ok(64));
        assert!(snaplen("262145").is_err() && snaplen("-1").is_err());
        assert_eq!(buffer("4096"), Ok(4 << 20));
        assert_eq!(buffer("32Mi"), Ok(32 << 20));
        assert!(buffer("1").is_err() && buffer("3Gi").is_err() && buffer("").is_err());
        assert!(buffer("99999999999999999999").is_err());
    }
}
