//! Under which names the metrics may be asked for.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The hosts that a request may name. A web page can point a name of its own at 127.0.0.1, and let the browser of a user of this host
/// read the metrics for it (DNS rebinding): its requests have that name in `Host`.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    /// Others than this host may read anyway, or browsers do not reach it (a UNIX socket).
    pub(super) are_all_permitted: bool,
    /// As `--allow-host` names them, without a port.
    pub(super) names: Vec<String>,
}

impl Hosts {
    /// Returns whether a request with this `Host` is answered: an address, `localhost`, or a permitted name, with any port. Without
    /// the header it does not come from a browser.
    pub(super) fn permits(&self, host: Option<&[u8]>) -> bool {
        let Some(host) = host else { return true };
        if self.are_all_permitted {
            return true;
        }
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let name = host.split_once(':').map_or(host, |(name, _port)| name);
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        name.parse::<Ipv4Addr>().is_ok() || is("localhost") || self.names.iter().any(|known| is(known))
    }

    /// Parses a name of `--allow-host`.
    pub(super) fn parse(text: &str) -> Result<String, String> {
        let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !text.is_empty() && text.bytes().all(is_part_of_name) {
            Ok(text.to_owned())
        } else {
            Err("expected the name of a host, without a port".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_can_point_here_are_refused() {
        let hosts = Hosts {
            are_all_permitted: false,
            names: vec!["metrics.example.org".to_owned()],
        };
        let permits = |host: &str| hosts.permits(Some(host.as_bytes()));
        for host in [
            "127.0.0.1:9977",
            "127.0.0.1",
            "[::1]:9977",
            "[::1]",
            "192.0.2.1:80",
            "localhost:9977",
            "LOCALHOST",
            "Metrics.example.org:443",
        ] {
            assert!(permits(host), "{host}");
        }
        for host in [
            "",
            "evil.example:9977",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[::1",
            "[evil]",
            "metrics.example.org.evil.example",
        ] {
            assert!(!permits(host), "{host}");
        }
        assert!(!hosts.permits(Some(&[0xff])));
        assert!(hosts.permits(None));
    }

    #[test]
    fn remote_readers_use_any_name() {
        let hosts = Hosts {
            are_all_permitted: true,
            names: Vec::new(),
        };
        assert!(hosts.permits(Some(b"node7:9977")));
    }

    #[test]
    fn name_has_no_port() {
        assert_eq!(
            Hosts::parse("node7.example.org"),
            Ok("node7.example.org".to_owned())
        );
        for wrong in ["", "a:1", "http://a", "[::1]", "a b"] {
            assert!(Hosts::parse(wrong).is_err(), "{wrong}");
        }
    }
}
