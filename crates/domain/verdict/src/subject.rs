//! What a finding is about, as text with numbers in place of names.

use crate::finding::Subject;
use core::fmt;
use sockeye_model::Endpoint;
use std::net::SocketAddr;

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sockets => f.write_str("sockets"),
            Self::Listener(local) => write!(f, "listener {}", EndpointText(local)),
            Self::Service { local, peer } => write!(f, "{} to {}", EndpointText(local), EndpointText(peer)),
            Self::NextHop { ip, device: None } => write!(f, "next hop {ip}"),
            Self::NextHop {
                ip,
                device: Some(device),
            } => write!(f, "next hop {ip} on {}", lossy(device.as_bytes())),
            Self::Device(name) => write!(f, "device {}", lossy(name.as_bytes())),
            Self::Qdisc { device, kind } => {
                write!(f, "{} of {}", lossy(kind.as_bytes()), lossy(device.as_bytes()))
            }
            Self::FirewallRule(name) => write!(f, "{name}"),
            Self::Counter(counter) => write!(f, "{counter}"),
            Self::Processor(number) => write!(f, "processor {number}"),
            Self::Table(name) => write!(f, "table {}", lossy(name.as_bytes())),
            Self::Namespace => f.write_str("network namespace"),
            Self::Host => f.write_str("host"),
            Self::Process => f.write_str("process"),
        }
    }
}

/// An endpoint as text with its number.
#[derive(Debug)]
pub struct EndpointText<'a>(pub &'a Endpoint);

impl fmt::Display for EndpointText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Port 0: not bound.
            Endpoint::Inet { ip, port } if port.0 == 0 => write!(f, "{ip}"),
            Endpoint::Inet { ip, port } => write!(f, "{}", SocketAddr::new(*ip, port.0)),
            Endpoint::Unix { name: Some(name), .. } => {
                let name = name.as_bytes();
                // An abstract name begins with a NUL byte.
                match name.strip_prefix(&[0]) {
                    Some(rest) => write!(f, "@{}", lossy(rest)),
                    None => f.write_str(&lossy(name)),
                }
            }
            _ => f.write_str("-"),
        }
    }
}

fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Counter, Port, ShortText};

    #[track_caller]
    fn check(subject: &Subject, expected: &str) {
        assert_eq!(subject.to_string(), expected);
    }

    #[test]
    fn subjects_have_numbers() {
        let end = |ip: [u8; 4], port| Endpoint::inet(ip.into(), Port(port));
        check(&Subject::Listener(end([0; 4], 443)), "listener 0.0.0.0:443");
        let service = Subject::Service {
            local: end([10, 0, 0, 1], 0),
            peer: end([10, 0, 0, 2], 5432),
        };
        check(&service, "10.0.0.1 to 10.0.0.2:5432");
        let unix = Endpoint::Unix {
            name: Some(ShortText::new(b"\0bus")),
            inode: None,
        };
        check(&Subject::Listener(unix), "listener @bus");
        check(&Subject::Counter(Counter::ListenDrops), "TcpExtListenDrops");
        let qdisc = Subject::Qdisc {
            device: ShortText::new(b"eth0"),
            kind: ShortText::new(b"fq"),
        };
        check(&qdisc, "fq of eth0");
    }
}
