use crate::address::canonical;
use crate::column::{SocketColumn, UnknownColumn};
use sockeye_model::{Endpoint, Entry, Memory, Names, Queues};
use std::cmp::Ordering;
use std::net::IpAddr;

/// By what a listing of sockets is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The column, whether it is shown or not.
    pub column: SocketColumn,
    /// Largest first. What is absent comes last either way; what is equal stays as it came.
    pub descending: bool,
}

impl SortKey {
    /// From a column's name, `-` or `:desc` meaning descending: `rtt`, `-recv_q`, `rtt:desc`.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn parse(text: &str) -> Result<Self, UnknownColumn> {
        let text = text.trim();
        let (text, minus) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
        let (name, word) = text
            .strip_suffix(":desc")
            .map_or((text, false), |rest| (rest, true));
        let name = name.strip_suffix(":asc").unwrap_or(name);
        Ok(Self {
            column: SocketColumn::from_name(name)?,
            descending: minus || word,
        })
    }

    /// Order of two values by this key.
    pub fn compare(self, a: Option<&Value>, b: Option<&Value>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// What is compared: the value itself, not its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A number.
    Number(u64),
    /// v4-mapped addresses are sorted among the IPv4 ones.
    Address(IpAddr, u16),
    /// Two numbers, compared in this order.
    Pair(u64, u64),
    /// Bytes of text.
    Text(Box<[u8]>),
}

/// The value of `column`; `None` where it is absent.
pub fn value(column: SocketColumn, entry: &Entry<'_>, names: &dyn Names) -> Option<Value> {
    use SocketColumn as C;
    let socket = entry.socket;
    let number = |number: Option<u64>| number.map(Value::Number);
    let text = |text: &[u8]| Some(Value::Text(text.into()));
    let named = |name: Option<&str>, otherwise: u64| match name {
        Some(name) => Value::Text(name.as_bytes().into()),
        None => Value::Number(otherwise),
    };
    match column {
        C::Netid => text(socket.protocol.name().as_bytes()),
        C::Family => Some(Value::Number(socket.family.number().into())),
        C::State => Some(Value::Number(socket.state.number().into())),
        C::RecvQ => match socket.queues {
            Queues::Unknown => None,
            Queues::Data { receive_bytes, .. } => Some(Value::Number(receive_bytes.into())),
            Queues::Accept { waiting, .. } => Some(Value::Number(waiting.into())),
        },
        C::SendQ => match socket.queues {
            Queues::Unknown => None,
            Queues::Data { send_bytes, .. } => Some(Value::Number(send_bytes.into())),
            Queues::Accept { backlog, .. } => number(backlog.map(u64::from)),
        },
        C::Local => endpoint(&socket.local),
        C::Peer => endpoint(&socket.peer),
        C::Timer => text(socket.timer?.kind.name().as_bytes()),
        C::TimerExpires => number(socket.timer.map(|timer| timer.expires_ms.into())),
        C::TimerRetransmits => number(socket.timer.map(|timer| timer.retransmits.into())),
        C::User => socket.uid.map(|uid| named(names.user(uid), uid.0.into())),
        C::Inode => number(socket.inode.map(|inode| inode.0.into())),
        C::Cookie => number(socket.cookie.map(|cookie| cookie.0)),
        C::Interface => {
            let index = socket.interface?;
            Some(named(names.interface(index, socket.netns), index.0.into()))
        }
        C::Mark => number(socket.mark.map(u64::from)),
        C::ClassId => number(socket.class_id.map(u64::from)),
        C::Tos => number(socket.tos.map(u64::from)),
        C::Tclass => number(socket.tclass.map(u64::from)),
        C::Shutdown => number(
            socket
                .shutdown
                .map(|s| u64::from(s.receive) + 2 * u64::from(s.send)),
        ),
        C::V6only => number(socket.v6only.map(u64::from)),
        C::Options => number(socket.options.map(|options| options.0.into())),
        C::Memory => number(socket.memory.as_ref().and_then(held)),
        C::Drops => number(socket.memory.and_then(|memory| memory.drops).map(u64::from)),
        C::Congestion | C::CongestionInfo => text(socket.congestion?.as_bytes()),
        C::Ulp => text(socket.ulp?.as_bytes()),
        C::References => number(socket.references.map(u64::from)),
        C::Netns => socket
            .netns
            .map(|inode| named(names.netns(inode), inode.0.into())),
        C::Cgroup => socket.cgroup.map(|id| named(names.cgroup(id), id.0)),
        C::Process => text(entry.owners?.first()?.process.comm.as_bytes()),
        C::Tcp(field) => {
            let (mut place, mut found) = (0, None);
            socket.tcp_info.as_ref()?.visit(|_, value| {
                if place == field.place() {
                    found = value;
                }
                place += 1;
            });
            number(found)
        }
        C::Mptcp(field) => number(field.value(socket.mptcp_info.as_ref()?)),
    }
}

/// Bytes of memory a socket holds.
fn held(memory: &Memory) -> Option<u64> {
    let parts = [
        memory.rmem_alloc_bytes,
        memory.wmem_queued_bytes,
        memory.fwd_alloc_bytes,
    ];
    let known = parts.into_iter().flatten().map(u64::from);
    (parts != [None; 3]).then(|| known.sum())
}

fn endpoint(endpoint: &Endpoint) -> Option<Value> {
    match endpoint {
        Endpoint::None => None,
        Endpoint::Inet { ip, port } => Some(Value::Address(canonical(*ip), port.0)),
        Endpoint::Unix { name, inode } => match name {
            Some(name) => Some(Value::Text(name.as_bytes().into())),
            None => inode.map(|inode| Value::Number(inode.0.into())),
        },
        Endpoint::Packet { ethertype, interface } => {
            let interface = interface.map_or(0, |interface| interface.0);
            Some(Value::Pair((*ethertype).into(), interface.into()))
        }
        Endpoint::Netlink { protocol, port, .. } => Some(Value::Pair((*protocol).into(), (*port).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{NoNames, Port, Protocol, Socket, State};

    #[test]
    fn keys() {
        let column = SocketColumn::from_name("recv_q").unwrap();
        for (text, descending) in [
            ("recv_q", false),
            ("-recv_q", true),
            ("Recv-Q:desc", true),
            ("recv_q:asc", false),
        ] {
            assert_eq!(SortKey::parse(text), Ok(SortKey { column, descending }), "{text}");
        }
        assert!(SortKey::parse("-").is_err());
    }

    #[test]
    fn values_not_texts() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        let mut at = |ip: &str| {
            socket.local = Endpoint::inet(ip.parse().unwrap(), Port(1));
            value(SocketColumn::Local, &Entry::new(&socket), &NoNames)
        };
        let (nine, ten, mapped, v6) = (at("9.0.0.1"), at("10.0.0.1"), at("::ffff:9.0.0.2"), at("::1"));
        assert!(nine < mapped && mapped < ten && ten < v6);
        for descending in [false, true] {
            let key = SortKey {
                column: SocketColumn::Local,
                descending,
            };
            assert_eq!(
                key.compare(None, nine.as_ref()),
                Ordering::Greater,
                "absent comes last"
            );
        }
    }
}
