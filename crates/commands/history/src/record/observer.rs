//! What is looked at in addition to sockets for hosts that are compared with others: what NAT translates, and when connections last sent and
//! received.

use sockeye_history::{DataKind, Exchange, ExchangePicker, SeenTranslation, Unseen};
use sockeye_model::{ConnectionEnds, NetnsInode, Protocol, Queues, Socket, State};
use sockeye_query::listing::Listing;
use sockeye_query::namespaces::Namespace;
use sockeye_source::{Translations, translations, within};
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Looks again and again.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// The translations of the last look.
    known: HashSet<SeenTranslation>,
    /// The five minutes of the last look, of which all were returned.
    period: Option<u64>,
    /// Looks so far.
    looks: u64,
}

impl Observer {
    /// Returns the connections that NAT translates now: those that the last look did not have, and in every five minutes all; and what
    /// could not be seen of them.
    pub(super) fn translations(
        &mut self,
        listing: &Listing<'_>,
        at_ms: u64,
    ) -> (Vec<SeenTranslation>, Vec<Unseen>) {
        let (mut now, mut unseen) = (HashSet::new(), Vec::new());
        let (mut left_out, mut failure) = (0, None);
        let selection = &listing.context.namespaces;
        for netns in selection.iter() {
            let room = TRANSLATIONS_MAX - now.len().min(TRANSLATIONS_MAX);
            let looked: io::Result<Result<Translations, String>> = match netns {
                None => Ok(translations(room).map_err(|error| error.to_string())),
                Some(netns) => selection.open(netns, |place| {
                    let within = within(place, || translations(room));
                    within
                        .map_err(|error| error.to_string())?
                        .map_err(|error| error.to_string())
                }),
            };
            let inode: Option<NetnsInode> = netns.map(Namespace::inode);
            match looked {
                Ok(Ok(found)) => {
                    left_out += found.left_out;
                    now.extend(found.all.into_iter().map(|translation| SeenTranslation {
                        netns: inode,
                        translation,
                    }));
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                // One that has ended translates nothing.
                Err(_) => {}
            }
        }
        if let Some(why) = failure {
            unseen.push(Unseen {
                kind: DataKind::Translations,
                part: None,
                why,
            });
        }
        if left_out > 0 {
            unseen.push(Unseen {
                kind: DataKind::Translations,
                part: Some("left out".to_owned()),
                why: format!("there are more than {TRANSLATIONS_MAX}"),
            });
        }
        (self.changed(now, at_ms), unseen)
    }

    /// Returns what is written of the translations that are there.
    fn changed(&mut self, now: HashSet<SeenTranslation>, at_ms: u64) -> Vec<SeenTranslation> {
        let period = Some(at_ms / PERIOD_MS);
        let is_new = |one: &&SeenTranslation| self.period != period || !self.known.contains(one);
        let mut written: Vec<_> = now.iter().filter(is_new).copied().collect();
        // Those of one place compress well together.
        written.sort_unstable();
        (self.known, self.period) = (now, period);
        written
    }

    /// Returns what picks connections, with every fifth look.
    pub(super) fn exchanges(&mut self) -> Option<ExchangePicker> {
        self.looks += 1;
        (self.looks % EXCHANGE_LOOKS == 1).then(|| ExchangePicker::new(EXCHANGES_MAX))
    }
}

/// Adds a connection that is read now, if the time of its last data is known. Which end listens is not known yet: ours is taken for the client.
pub(super) fn add_exchange(picker: &mut ExchangePicker, socket: &Socket) {
    if socket.protocol != Protocol::Tcp || socket.state != State::Established {
        return;
    }
    let end = |of: &sockeye_model::Endpoint| Some((of.ip()?.to_canonical(), of.port()?.0));
    let (Some(local), Some(peer), Some(info)) = (end(&socket.local), end(&socket.peer), &socket.tcp_info)
    else {
        return;
    };
    let is_waiting = match socket.queues {
        Queues::Data { send_bytes, .. } => send_bytes > 0,
        _ => true,
    };
    let is_of_host = |ip: IpAddr| ip.is_loopback();
    // What was sent again was sent twice, and what is on its way has not arrived.
    if is_waiting
        || is_of_host(local.0)
        || local.0 == peer.0
        || info.total_retrans_segs != Some(0)
        || info.unacked_segs != Some(0)
    {
        return;
    }
    let (Some(acked), Some(received), Some(sent_ago_ms), Some(received_ago_ms)) = (
        info.bytes_acked,
        info.bytes_received,
        info.last_data_sent_ms,
        info.last_data_recv_ms,
    ) else {
        return;
    };
    // The SYN is a byte.
    if acked <= 1 || received == 0 {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = now.as_millis() as u64;
    picker.add(Exchange {
        netns: socket.netns,
        is_server: false,
        ends: ConnectionEnds {
            client: local,
            server: peer,
        },
        request_bytes: acked,
        response_bytes: received,
        sent_ms: now_ms.saturating_sub(sent_ago_ms.into()),
        received_ms: now_ms.saturating_sub(received_ago_ms.into()),
    });
}

/// Returns the connections that were picked, with their ends as they are.
pub(super) fn exchanges(
    picker: ExchangePicker,
    listeners: &HashSet<(Option<NetnsInode>, u16)>,
) -> Vec<Exchange> {
    let with_ends = |one: Exchange| {
        let ConnectionEnds {
            client: local,
            server: peer,
        } = one.ends;
        if listeners.contains(&(one.netns, local.1)) {
            return Exchange {
                is_server: true,
                ends: ConnectionEnds {
                    client: peer,
                    server: local,
                },
                request_bytes: one.response_bytes,
                response_bytes: one.request_bytes,
                ..one
            };
        }
        Exchange {
            // The kernel counts the SYN of a client as acknowledged.
            request_bytes: one.request_bytes - 1,
            ..one
        }
    };
    picker.finish().into_iter().map(with_ends).collect()
}

/// Translations of a look.
const TRANSLATIONS_MAX: usize = 10_000;

/// All translations are written once in this time.
const PERIOD_MS: u64 = 300_000;

/// Connections that are picked of a look.
const EXCHANGES_MAX: usize = 200;

/// Looks from one that picks connections to the next.
const EXCHANGE_LOOKS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Port, TcpInfo, Translation};

    fn seen(port: u16) -> SeenTranslation {
        let ends = ConnectionEnds {
            client: ([10, 0, 0, 1].into(), port),
            server: ([10, 0, 0, 2].into(), 80),
        };
        SeenTranslation {
            netns: None,
            translation: Translation {
                zone: 0,
                original: ends,
                translated: ends,
            },
        }
    }

    #[test]
    fn new_translations_are_written_at_once_and_all_every_five_minutes() {
        let mut observer = Observer::default();
        let mut look = |ports: &[u16], at_s: u64| {
            let now = ports.iter().map(|port| seen(*port)).collect();
            let written = observer.changed(now, 1_795_000_200_000 + at_s * 1_000);
            let port = |one: &SeenTranslation| one.translation.original.client.1;
            written.iter().map(port).collect::<Vec<_>>()
        };
        assert_eq!(look(&[1, 2], 0), [1, 2]);
        assert_eq!(look(&[1, 2, 3], 60), [3]);
        assert_eq!(look(&[1, 3], 120), [0; 0]);
        assert_eq!(look(&[1, 2, 3], 180), [2]);
        assert_eq!(look(&[1, 2, 3], 300), [1, 2, 3]);
    }

    fn connection(local: u16, peer: u16, acked: u64, received: u64) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(local));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(peer));
        socket.queues = Queues::Data {
            receive_bytes: 0,
            send_bytes: 0,
        };
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(acked),
            bytes_received: Some(received),
            total_retrans_segs: Some(0),
            unacked_segs: Some(0),
            last_data_sent_ms: Some(5_000),
            last_data_recv_ms: Some(4_000),
            ..TcpInfo::default()
        });
        socket
    }

    #[test]
    fn both_ends_of_a_connection_have_the_same_bytes() {
        let mut picker = ExchangePicker::new(10);
        add_exchange(&mut picker, &connection(40_000, 80, 301, 700));
        let of_client = exchanges(picker, &HashSet::new());
        let mut picker = ExchangePicker::new(10);
        let mut server = connection(80, 40_000, 700, 300);
        std::mem::swap(&mut server.local, &mut server.peer);
        (server.local, server.peer) = (
            Endpoint::inet([10, 0, 0, 2].into(), Port(80)),
            Endpoint::inet([10, 0, 0, 1].into(), Port(40_000)),
        );
        add_exchange(&mut picker, &server);
        let of_server = exchanges(picker, &HashSet::from([(None, 80)]));
        let key = |one: &Exchange| (one.ends, one.request_bytes, one.response_bytes);
        assert_eq!(key(&of_client[0]), key(&of_server[0]));
        assert_eq!((of_client[0].is_server, of_server[0].is_server), (false, true));
        assert_eq!(of_client[0].received_ms - of_client[0].sent_ms, 1_000);
    }

    #[test]
    fn connection_whose_last_data_may_not_have_arrived_is_not_picked() {
        let picked = |change: fn(&mut TcpInfo)| {
            let mut socket = connection(1, 2, 301, 700);
            socket.tcp_info.as_mut().map(change).unwrap();
            let mut picker = ExchangePicker::new(10);
            add_exchange(&mut picker, &socket);
            picker.finish().len()
        };
        assert_eq!(picked(|_| {}), 1);
        assert_eq!(picked(|info| info.unacked_segs = Some(1)), 0);
        assert_eq!(picked(|info| info.total_retrans_segs = Some(1)), 0);
        assert_eq!(picked(|info| info.bytes_acked = Some(1)), 0);
        assert_eq!(picked(|info| info.last_data_recv_ms = None), 0);
    }
}
