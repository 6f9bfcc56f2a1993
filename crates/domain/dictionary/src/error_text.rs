//! Errors of system calls and of name resolution that programs print in words: `dial tcp 192.0.2.1:443: connect: connection refused`,
//! `ECONNREFUSED`.
//!
//! Programs have more messages than a dictionary can have; the entry of the error explains those that have no entry of their own.
//! Left out are errors that have little to do with the network (`Permission denied`), and what a program calls a timeout of its own.

use crate::messages::MatchedLine;
use crate::names::normal;
use crate::{Kind, Severity, family, packed};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::sync::OnceLock;

/// The entry of an error that the line has in words, or by its name.
pub(crate) fn matched(line: &str) -> Option<MatchedLine<'_>> {
    let error = error_in(line.as_bytes())?;
    let number = packed::numbers_named(&normal(error.name))
        .find(|&number| packed::entry(number).kind == Kind::Error)?;
    Some(MatchedLine {
        number,
        wording: family::NO_WORDING,
        severity: error.severity,
        values: Vec::new(),
    })
}

/// Whether the line has an error in words, also behind escapes.
pub(crate) fn has_error(line: &str) -> bool {
    error_in(line.as_bytes()).is_some()
}

/// The first error in a line.
fn error_in(line: &[u8]) -> Option<&'static Error> {
    static TEXTS: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(ERRORS.map(|error| error.text))
            // The only error is an excessive number of texts.
            .ok()
    });
    let is_of_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let mut found = texts.iter().flat_map(|texts| texts.find_iter(line));
    let found = found.find(|found| {
        let (before, after) = (&line[..found.start()], &line[found.end()..]);
        // `Connection timed out after 5001 milliseconds` is a limit of curl's own.
        !is_of_word(before.last()) && !is_of_word(after.first()) && !after.starts_with(b" after ")
    })?;
    Some(&ERRORS[found.pattern()])
}

struct Error {
    /// Words of the C library or of a runtime: Go, Java, Node.js
    text: &'static str,
    /// Name of its entry
    name: &'static str,
    severity: Severity,
}

const fn error(text: &'static str, name: &'static str, severity: Severity) -> Error {
    Error { text, name, severity }
}

/// Which errors are found: those that the network, its limits or its names give. What happens wherever clients come and go is a notice.
const ERRORS: [Error; 38] = [
    error("connection refused", "ECONNREFUSED", Severity::Warning),
    error("ECONNREFUSED", "ECONNREFUSED", Severity::Warning),
    error("connection reset", "ECONNRESET", Severity::Notice),
    error("ECONNRESET", "ECONNRESET", Severity::Notice),
    error(
        "software caused connection abort",
        "ECONNABORTED",
        Severity::Notice,
    ),
    error("ECONNABORTED", "ECONNABORTED", Severity::Notice),
    error("connection timed out", "ETIMEDOUT", Severity::Warning),
    error("ETIMEDOUT", "ETIMEDOUT", Severity::Warning),
    error("no route to host", "EHOSTUNREACH", Severity::Warning),
    error("EHOSTUNREACH", "EHOSTUNREACH", Severity::Warning),
    error("network is unreachable", "ENETUNREACH", Severity::Warning),
    error("network unreachable", "ENETUNREACH", Severity::Warning),
    error("ENETUNREACH", "ENETUNREACH", Severity::Warning),
    error("network is down", "ENETDOWN", Severity::Warning),
    error("ENETDOWN", "ENETDOWN", Severity::Warning),
    error("host is down", "EHOSTDOWN", Severity::Warning),
    error("EHOSTDOWN", "EHOSTDOWN", Severity::Warning),
    error("address already in use", "EADDRINUSE", Severity::Warning),
    error("EADDRINUSE", "EADDRINUSE", Severity::Warning),
    error(
        "cannot assign requested address",
        "EADDRNOTAVAIL",
        Severity::Warning,
    ),
    error("EADDRNOTAVAIL", "EADDRNOTAVAIL", Severity::Warning),
    error(
        "transport endpoint is not connected",
        "ENOTCONN",
        Severity::Notice,
    ),
    error("ENOTCONN", "ENOTCONN", Severity::Notice),
    error("broken pipe", "EPIPE", Severity::Notice),
    error("EPIPE", "EPIPE", Severity::Notice),
    error("too many open files in system", "ENFILE", Severity::Critical),
    error("too many open files", "EMFILE", Severity::Critical),
    error("EMFILE", "EMFILE", Severity::Critical),
    error("no buffer space available", "ENOBUFS", Severity::Warning),
    error("ENOBUFS", "ENOBUFS", Severity::Warning),
    error(
        "address family not supported by protocol",
        "EAFNOSUPPORT",
        Severity::Warning,
    ),
    error(
        "temporary failure in name resolution",
        "EAI_AGAIN",
        Severity::Warning,
    ),
    error("EAI_AGAIN", "EAI_AGAIN", Severity::Warning),
    error("name or service not known", "EAI_NONAME", Severity::Warning),
    error(
        "no address associated with hostname",
        "EAI_NODATA",
        Severity::Warning,
    ),
    error("could not resolve host", "EAI_NONAME", Severity::Warning),
    error("no such host", "EAI_NONAME", Severity::Warning),
    error("ENOTFOUND", "EAI_NONAME", Severity::Warning),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_entry() {
        for error in &ERRORS {
            let line = format!("app: call failed: {}: again", error.text);
            let known = matched(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(known.entry().name, error.name, "{line}");
        }
    }

    #[test]
    fn errors_in_words_are_found() {
        #[track_caller]
        fn check(line: &str, name: Option<&str>) {
            assert_eq!(error_in(line.as_bytes()).map(|error| error.name), name, "{line}");
        }
        check(
            "dial tcp 10.0.0.4:5432: connect: connection refused",
            Some("ECONNREFUSED"),
        );
        check(
            "java.net.ConnectException: Connection refused (Connection refused)",
            Some("ECONNREFUSED"),
        );
        check("Error: connect ECONNREFUSED 127.0.0.1:3000", Some("ECONNREFUSED"));
        check("java.net.SocketException: Connection reset", Some("ECONNRESET"));
        check("accept4: Too many open files in system", Some("ENFILE"));
        check(
            "[Errno 99] Cannot assign requested address",
            Some("EADDRNOTAVAIL"),
        );
        check(
            "dial tcp: lookup db on 10.0.0.1:53: no such host",
            Some("EAI_NONAME"),
        );
        check("curl: (28) Connection timed out after 5001 milliseconds", None);
        check("connection refuseds", None);
        check("MY_EPIPE_COUNT", None);
        check("", None);
    }
}
