//! Port names for output, and port numbers for service names in filters, through `SystemNames`. It reads the
//! files directly: the name service switch is not used.

use sockeye_model::{Port, Protocol};
use std::fs;

/// Names of ports, from `/etc/services`, and of IP protocols, which are the "ports" of RAW sockets, from
/// `/etc/protocols`.
///
/// Memory: the text of the files, and 12 bytes per name.
#[derive(Debug, Default, Clone)]
pub struct Services {
    text: String,
    /// Sorted by transport and number, then in the order of the file: the official name first.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    transport: Transport,
    number: u16,
    start: u32,
    len: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Transport {
    Tcp,
    Udp,
    /// IP protocol numbers instead of ports.
    Ip,
}

impl Services {
    /// Reads the files of this host; missing or malformed entries have no name.
    pub(crate) fn read() -> Self {
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self::parse(
            &read("/etc/services").unwrap_or_default(),
            &read("/etc/protocols").unwrap_or_default(),
        )
    }

    /// Parses the text of the two files (services(5), protocols(5)).
    pub(crate) fn parse(services: &str, protocols: &str) -> Self {
        let text = format!("{services}\n{protocols}");
        let mut entries = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.split('#').next().unwrap_or_default();
            // name  number[/transport]  aliases...
            let mut words = content.split_ascii_whitespace();
            let names = [words.next()].into_iter().flatten();
            let place = words.next().and_then(|word| {
                if start <= services.len() {
                    let (number, transport) = word.split_once('/')?;
                    let transport = match transport {
                        "tcp" => Transport::Tcp,
                        "udp" => Transport::Udp,
                        _ => return None, // sctp, dccp, ddp: nothing we list
                    };
                    Some((transport, number.parse().ok()?))
                } else {
                    Some((Transport::Ip, word.parse().ok()?))
                }
            });
            if let Some((transport, number)) = place {
                entries.extend(names.chain(words).map(|name| Entry {
                    transport,
                    number,
                    // Within `line`, and so within `text`.
                    start: (start + (name.as_ptr() as usize - line.as_ptr() as usize)) as u32,
                    len: name.len() as u32,
                }));
            }
            start += line.len();
        }
        entries.sort_by_key(|entry| (entry.transport, entry.number));
        Self { text, entries }
    }

    /// Returns the official name of this port; `None` if unknown.
    #[must_use]
    pub fn name(&self, protocol: Protocol, port: Port) -> Option<&str> {
        let key = (Transport::of(protocol)?, port.0);
        let first = self
            .entries
            .partition_point(|entry| (entry.transport, entry.number) < key);
        let entry = self.entries.get(first)?;
        ((entry.transport, entry.number) == key)
            .then(|| self.text_of(entry))
            .flatten()
    }

    /// Returns the port with this name or alias; `None` if unknown. Without a protocol, TCP is tried before UDP.
    #[must_use]
    pub fn port(&self, name: &str, protocol: Option<Protocol>) -> Option<Port> {
        let transport = match protocol {
            Some(protocol) => Some(Transport::of(protocol)?),
            None => None,
        };
        let mut entries = self.entries.iter().filter(|entry| match transport {
            Some(transport) => entry.transport == transport,
            None => entry.transport != Transport::Ip,
        });
        let found = entries.find(|entry| self.text_of(entry) == Some(name));
        found.map(|entry| Port(entry.number))
    }

    fn text_of(&self, entry: &Entry) -> Option<&str> {
        let start = entry.start as usize;
        self.text.get(start..start + entry.len as usize)
    }
}

impl Transport {
    fn of(protocol: Protocol) -> Option<Self> {
        match protocol {
            Protocol::Tcp | Protocol::Mptcp => Some(Self::Tcp),
            Protocol::Udp | Protocol::UdpLite => Some(Self::Udp),
            Protocol::Raw => Some(Self::Ip),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICES: &str = "# comment\n\
        ssh\t\t22/tcp\t\t\t\t# SSH Remote Login Protocol\n\
        domain 53/tcp\n\
        domain 53/udp\n\
        http 80/tcp www # WorldWideWeb HTTP\n\
        other 80/tcp\n\
        syslog 514/udp\n\
        shell 514/tcp cmd syslog\n\
        bad 99999/tcp\n\
        worse\n\
        x 5/sctp\n\
        y /tcp\n\
        last 6/tcp";
    const PROTOCOLS: &str =
        "icmp 1 ICMP # internet control message protocol\nipv6-icmp 58 IPv6-ICMP\nlong 300 X\n";

    #[test]
    fn port_names_depend_on_protocol() {
        let services = Services::parse(SERVICES, PROTOCOLS);
        let name = |protocol, port| services.name(protocol, Port(port));
        assert_eq!(name(Protocol::Tcp, 22), Some("ssh"));
        assert_eq!(name(Protocol::Mptcp, 22), Some("ssh"));
        assert_eq!(name(Protocol::Udp, 22), None);
        assert_eq!(name(Protocol::Tcp, 80), Some("http"));
        assert_eq!(name(Protocol::UdpLite, 53), Some("domain"));
        assert_eq!(name(Protocol::Tcp, 6), Some("last"));
        assert_eq!(name(Protocol::Tcp, 99), None);
        assert_eq!(name(Protocol::Tcp, 65535), None);
        assert_eq!(name(Protocol::Raw, 58), Some("ipv6-icmp"));
        assert_eq!(name(Protocol::Raw, 22), None);
        assert_eq!(name(Protocol::Netlink, 22), None);
    }

    #[test]
    fn ports_are_found_by_name_and_alias() {
        let services = Services::parse(SERVICES, PROTOCOLS);
        let port = |name, protocol| services.port(name, protocol).map(|port| port.0);
        assert_eq!(port("www", Some(Protocol::Tcp)), Some(80));
        assert_eq!(port("syslog", None), Some(514));
        assert_eq!(port("ssh", Some(Protocol::Udp)), None);
        assert_eq!(port("ICMP", Some(Protocol::Raw)), Some(1));
        assert_eq!(port("icmp", None), None);
        assert_eq!(port("bad", None), None);
        assert_eq!(port("", None), None);
    }

    #[test]
    fn empty_files_have_no_names() {
        assert_eq!(Services::parse("", "").name(Protocol::Tcp, Port(22)), None);
    }
}
