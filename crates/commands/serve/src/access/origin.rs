//! The one address under which the page is reachable.

use std::net::SocketAddr;

/// The canonical origin: scheme, host and port. Requests for another host are refused, so that a page of a name that someone points at this
/// address reads nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) is_https: bool,
    /// As browsers send it in `Host`: without the default port of the scheme.
    pub(crate) host: String,
}

impl Origin {
    /// Returns the origin of an address that is listened on.
    pub(crate) fn of_address(address: SocketAddr, is_https: bool) -> Self {
        let default = if is_https { 443 } else { 80 };
        let host = if address.port() == default {
            match address {
                SocketAddr::V4(address) => address.ip().to_string(),
                SocketAddr::V6(address) => format!("[{}]", address.ip()),
            }
        } else {
            address.to_string()
        };
        Self { is_https, host }
    }

    /// Parses `https://sockeye.example.org` or `http://HOST:PORT`, without a path.
    ///
    /// # Errors
    /// What is expected instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected https://NAME or https://NAME:PORT, without a path".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
        let is_https = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(expected()),
        };
        let host = rest.strip_suffix('/').unwrap_or(rest);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(expected());
        }
        let host = host.to_ascii_lowercase();
        let default = if is_https { ":443" } else { ":80" };
        Ok(Self {
            is_https,
            host: host.strip_suffix(default).unwrap_or(&host).to_owned(),
        })
    }

    /// Returns whether a request with this `Host` is for this origin.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_the_port_that_browsers_send() {
        let of = |address: &str, is_https| Origin::of_address(address.parse().unwrap(), is_https).host;
        assert_eq!(of("127.0.0.1:7117", false), "127.0.0.1:7117");
        assert_eq!(of("127.0.0.1:80", false), "127.0.0.1");
        assert_eq!(of("[::1]:443", true), "[::1]");
        assert_eq!(of("[::1]:80", true), "[::1]:80");
    }

    #[test]
    fn public_url_has_no_path_and_no_default_port() {
        let host = |text| Origin::parse(text).map(|origin| (origin.is_https, origin.host));
        assert_eq!(
            host("https://Sockeye.example.org/"),
            Ok((true, "sockeye.example.org".to_owned()))
        );
        assert_eq!(host("https://a:443"), Ok((true, "a".to_owned())));
        assert_eq!(host("http://a:8080"), Ok((false, "a:8080".to_owned())));
        for bad in [
            "a",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://u@a",
        ] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
