//! The pass over descriptors compared with `sock_diag` on the same sockets.

use super::*;
use crate::{BpfEngine, Choice, Ends, Families, NetnsScope, OpenNetns, list};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType,
};
use sockeye_lab::{
    Family as LabFamily, Lab, LabSocket, Namespace, Pair, SocketOptions, UnixKind, UnixName, need,
};
use sockeye_model::{Endpoint, Inode, InterfaceIndex, NetnsInode, Queues, StateSet};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixDatagram, UnixStream};

/// An open namespace of the lab.
struct Opened {
    file: File,
    inode: NetnsInode,
}

impl Opened {
    fn new(namespace: &Namespace) -> Self {
        Self {
            file: File::open(namespace.path()).unwrap(),
            inode: NetnsInode(u32::try_from(namespace.inode()).unwrap()),
        }
    }

    /// Lists the sockets with an inode by `sock_diag`; RAW sockets by `/proc/net` if the kernel has no `raw_diag`.
    fn diag(&self, query: &Query<'_>) -> BTreeMap<Inode, Socket> {
        let raw = ProtocolSet::of(&[Protocol::Raw]);
        let only_raw = Query {
            protocols: raw,
            ..query.clone()
        };
        let not_raw = Query {
            protocols: query.protocols.retain(|protocol| protocol != Protocol::Raw),
            ..query.clone()
        };
        let mut found = self.list(&not_raw, Choice::DiagV2).unwrap();
        found.extend(self.list(&only_raw, Choice::DiagV2).unwrap_or_else(|| {
            println!("SKIP: no raw_diag, so RAW sockets are compared with /proc/net");
            self.list(&only_raw, Choice::Procfs).unwrap()
        }));
        found
    }

    /// Lists by this source; `None` if it fails.
    fn list(&self, query: &Query<'_>, choice: Choice) -> Option<BTreeMap<Inode, Socket>> {
        let query = Query {
            choice,
            ..query.clone()
        };
        let mut found = BTreeMap::new();
        list(&BpfEngine::default(), &query, &mut |socket, _| {
            // The kernel's own NETLINK sockets have inodes too, but no descriptors; and the one that is asking is
            // gone when the answer is read.
            let is_gone = matches!(
                socket.local,
                Endpoint::Netlink { port: 0, .. }
                    | Endpoint::Netlink {
                        protocol: NETLINK_SOCK_DIAG,
                        ..
                    }
            );
            if let Some(inode) = socket.inode
                && !is_gone
            {
                found.insert(inode, socket.clone());
            }
            ControlFlow::Continue(())
        })
        .ok()?;
        Some(found)
    }

    /// All sockets of the namespace but TCP's.
    fn query(&self) -> Query<'_> {
        Query {
            scope: NetnsScope::One(OpenNetns {
                fd: self.file.as_fd(),
                inode: self.inode,
                process: None,
            }),
            ..all_but_tcp()
        }
    }
}

fn all_but_tcp() -> Query<'static> {
    let not_tcp = |protocol| protocol != Protocol::Tcp;
    Query {
        protocols: ProtocolSet::ALL.retain(not_tcp),
        families: Families::BOTH,
        states: StateSet::ALL,
        detail: Detail::QUEUES
            | Detail::TIMER
            | Detail::INODE
            | Detail::USER
            | Detail::OPTIONS
            | Detail::MEMORY
            | Detail::SERVICE_CLASS,
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Auto,
        scope: NetnsScope::All,
        quiet: None,
        announce: None,
    }
}

/// Lists by the pass; `None` if BPF does not run here.
fn pass(engine: &BpfEngine, query: &Query<'_>) -> Option<BTreeMap<Inode, Socket>> {
    let sockets = match engine.owned_socket_programs() {
        Ok(sockets) => sockets,
        Err(unavailable) if unavailable.is_forbidden() => {
            println!("SKIP: {unavailable}");
            return None;
        }
        Err(unavailable) => panic!("{unavailable}"),
    };
    let own = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let mut walked = WalkStats::default();
    let mut found = BTreeMap::new();
    sockets
        .sockets(own.as_fd(), query, &mut walked, &mut |socket| {
            let before = found.insert(socket.inode.unwrap(), socket.clone());
            assert!(before.is_none(), "reported twice: {socket:?}");
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(walked.delivered, found.len() as u64);
    let sample = rustix::fs::fstat(&own).unwrap().st_ino;
    assert!(
        found.keys().all(|inode| u64::from(inode.0) != sample),
        "our own socket is reported"
    );
    assert_eq!(walked.losses.broken_records, 0);
    Some(found)
}

/// Checks that both report the same for every socket of the namespace that has a descriptor; also with the programs of
/// older kernels.
#[track_caller]
fn same(engine: &BpfEngine, namespace: &Namespace) -> Option<BTreeMap<Inode, Socket>> {
    same_by(&BpfEngine::default().without_cast(), namespace)?;
    same_by(engine, namespace)
}

#[track_caller]
fn same_by(engine: &BpfEngine, namespace: &Namespace) -> Option<BTreeMap<Inode, Socket>> {
    let place = Opened::new(namespace);
    // First, since it gives each socket a cookie.
    let diag = place.diag(&place.query());
    let pass = pass(engine, &place.query())?;
    for (inode, expected) in &diag {
        let Some(found) = pass.get(inode) else {
            panic!("the pass lacks {expected:?}");
        };
        if expected.cookie.is_some() {
            assert_eq!(found, expected);
            continue;
        }
        // /proc/net lacks the rest.
        let known = |socket: &Socket| {
            let ends = (socket.local, socket.peer);
            (
                socket.protocol,
                socket.family,
                socket.state,
                ends,
                socket.queues,
                socket.uid,
            )
        };
        assert_eq!(known(found), known(expected));
    }
    for (inode, found) in &pass {
        assert!(diag.contains_key(inode), "sock_diag lacks {found:?}");
    }
    Some(pass)
}

fn inode(lab_socket: &LabSocket) -> Inode {
    Inode(u32::try_from(lab_socket.inode).unwrap())
}

#[test]
fn ip_packet_and_netlink_sockets_match_sock_diag() {
    let lab = need!(Lab::new("held_kinds"));
    let namespace = lab.namespace("one");
    let nothing = SocketOptions::new();
    let mut udp = vec![
        namespace.udp_bound("127.0.0.1:0", &nothing),
        namespace.udp_bound("0.0.0.0:0", &SocketOptions::new().mark(77).device("lo")),
        namespace.udp_bound("[::1]:0", &nothing),
        namespace.udp_bound("[::]:0", &SocketOptions::new().v6_only(true)),
        namespace.udp_bound("[::]:0", &SocketOptions::new().v6_only(false)),
    ];
    match namespace.udp_lite_bound("[::1]:0", &nothing) {
        Ok(lite) => udp.push(lite),
        Err(skip) => println!("SKIP: {skip}"),
    }
    let net_paths = [
        namespace.loopback(),
        namespace.loopback6(),
        namespace.loopback_mapped(),
    ];
    let connected = net_paths.each_ref().map(|net_path| net_path.udp_connected());
    for pair in &connected {
        pair.client.socket().send(b"three").unwrap();
        pair.client.socket().send(b"more").unwrap();
    }
    rustix::net::sockopt::set_ip_tos(udp[0].socket(), 0x10).unwrap();
    rustix::net::sockopt::set_ipv6_freebind(udp[2].socket(), true).unwrap();
    udp[0].socket().set_recv_buffer_size(50_000).unwrap();
    connected[0].server.socket().shutdown(Shutdown::Read).unwrap();
    let others = [
        namespace.raw(1, false),
        namespace.raw(58, true),
        namespace.raw(255, false),
        namespace.packet(3),
        namespace.packet(0x0800),
        namespace.netlink(0),
        namespace.netlink(15),
    ];
    // ICMP for the sockets above, which is never read.
    udp[0]
        .socket()
        .send_to(b"x", &"127.0.0.1:1".parse::<SocketAddr>().unwrap().into())
        .unwrap();
    // The kernel frees a part of the memory of read data later.
    connected[1].server.socket().set_nonblocking(true).unwrap();
    read(&connected[1].server, &mut [0; 5]);
    let engine = BpfEngine::default();
    let Some(found) = same(&engine, &namespace) else {
        return;
    };
    let lab_sockets = || {
        let pairs = connected.iter().flat_map(Pair::lab_sockets);
        udp.iter().chain(pairs).chain(&others)
    };
    for lab_socket in lab_sockets() {
        assert!(found.contains_key(&inode(lab_socket)), "{lab_socket:?}");
    }
    assert_eq!(found.len(), lab_sockets().count());
    assert_eq!(found[&inode(&udp[1])].mark, Some(77));
    assert_eq!(found[&inode(&udp[1])].interface, Some(InterfaceIndex(1)));
    assert_eq!(found[&inode(&udp[3])].v6only, Some(true));
    assert!(matches!(
        found[&inode(&connected[2].server)].queues,
        Queues::Data {
            receive_bytes: 1..,
            ..
        }
    ));
}

#[test]
fn unix_sockets_match_sock_diag() {
    let lab = need!(Lab::new("held_unix"));
    let namespace = lab.namespace("one");
    let mut pairs = Vec::new();
    for kind in [UnixKind::Stream, UnixKind::Datagram, UnixKind::Seqpacket] {
        pairs.push(namespace.unix_connected(kind, &lab.unix_path(format!("path of {kind:?}"))));
        pairs.push(namespace.unix_connected(kind, &lab.unix_abstract(format!("a\0b{kind:?}\0"))));
        pairs.push(namespace.unix_pair(kind));
    }
    for pair in &pairs {
        for packet in [&b"three"[..], b"more", b"packets"] {
            pair.client.socket().send(packet).unwrap();
        }
    }
    // Two bytes are read: of a stream the rest stays in the queue, of a packet it is lost.
    let mut two = [0; 2];
    for pair in &pairs[..2] {
        read(&pair.server, &mut two);
    }
    pairs[2].client.socket().shutdown(Shutdown::Write).unwrap();
    // The longest names; behind one of 108 bytes there is no room for a NUL.
    let longest: Vec<_> = [106, 107]
        .into_iter()
        .map(|bytes| {
            let name =
                OsStr::from_bytes(&[b'n'; 120][..bytes - lab.directory().as_os_str().len() - 1]).to_owned();
            namespace.unix_bound(UnixKind::Stream, &UnixName::Path(lab.directory().join(name)))
        })
        .collect();
    let waiting = namespace.unix_bound(UnixKind::Seqpacket, &lab.unix_path("waiting"));
    let client = namespace.run(|| {
        let client = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        let UnixName::Path(path) = lab.unix_path("waiting") else {
            unreachable!()
        };
        rustix::net::connect(&client, &rustix::net::SocketAddrUnix::new(path).unwrap()).unwrap();
        client
    });
    // Bound to nothing, connected to nothing, and to a name of the kernel's choice.
    let (fresh, autobound) = namespace.run(|| {
        let fresh = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
        let autobound = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
        rustix::net::bind(&autobound, &rustix::net::SocketAddrUnix::new_unnamed()).unwrap();
        (fresh, autobound)
    });
    let engine = BpfEngine::default();
    let Some(found) = same(&engine, &namespace) else {
        return;
    };
    let lab_sockets = pairs
        .iter()
        .flat_map(Pair::lab_sockets)
        .chain(&longest)
        .chain([&waiting]);
    let mut count = 0;
    for lab_socket in lab_sockets {
        assert!(found.contains_key(&inode(lab_socket)), "{lab_socket:?}");
        count += 1;
    }
    assert_eq!(found.len(), count + 3);
    assert_eq!(
        found[&inode(&waiting)].queues,
        Queues::Accept {
            waiting: 1,
            backlog: Some(128)
        }
    );
    let received = |pair: &Pair| found[&inode(&pair.server)].queues;
    let is =
        |bytes| move |queues| matches!(queues, Queues::Data { receive_bytes, .. } if receive_bytes == bytes);
    assert!(
        is(14)(received(&pairs[0])),
        "a stream of which two bytes were read"
    );
    assert!(is(5)(received(&pairs[5])), "the first datagram");
    assert!(is(16)(received(&pairs[8])), "three packets");
    drop((client, fresh, autobound));
}

#[test]
fn mptcp_sockets_match_sock_diag() {
    let lab = need!(Lab::new("held_mptcp"));
    let namespace = lab.namespace("one");
    let pair = need!(namespace.loopback().mptcp());
    let engine = BpfEngine::default();
    let Some(found) = same(&engine, &namespace) else {
        return;
    };
    for lab_socket in pair.lab_sockets() {
        assert_eq!(found[&inode(lab_socket)].protocol, Protocol::Mptcp);
    }
}

#[test]
fn shared_socket_is_reported_once() {
    let lab = need!(Lab::new("held_shared"));
    let namespace = lab.namespace("one");
    let shared = namespace.udp_bound("127.0.0.1:0", &SocketOptions::new());
    let (one, other) = UnixStream::pair().unwrap();
    // 1. A child that inherits it, 2. a second descriptor here, 3. one received in a message, 4. one in flight.
    let child = lab
        .process("holder")
        .in_namespace(&namespace)
        .sharing(&shared)
        .start();
    let second = shared.socket().try_clone().unwrap();
    send(&one, shared.socket().as_fd());
    let third = receive(&other);
    send(&one, shared.socket().as_fd());
    // 5. A socket that only a message contains.
    let in_flight = namespace.udp_bound("127.0.0.1:0", &SocketOptions::new());
    let its_inode = inode(&in_flight);
    send(&one, in_flight.socket().as_fd());
    drop(in_flight);
    let engine = BpfEngine::default();
    let place = Opened::new(&namespace);
    let Some(found) = pass(&engine, &place.query()) else {
        return;
    };
    assert!(found.keys().eq([&inode(&shared)]), "{found:#?}");
    assert!(place.diag(&place.query()).contains_key(&its_inode));
    // The receiver of the message has a descriptor of it.
    drop(receive(&other));
    let taken = receive(&other);
    let found = pass(&engine, &place.query()).unwrap();
    assert!(found.contains_key(&its_inode));
    drop((child, second, third, taken));
}

#[test]
fn every_socket_has_its_namespace() {
    let lab = need!(Lab::new("held_everywhere"));
    let namespaces = [lab.namespace("one"), lab.namespace("two")];
    let options = SocketOptions::new();
    let bound = namespaces
        .each_ref()
        .map(|namespace| namespace.udp_bound("127.0.0.1:5353", &options));
    let engine = BpfEngine::default();
    let Some(found) = pass(&engine, &all_but_tcp()) else {
        return;
    };
    for (namespace, lab_socket) in namespaces.iter().zip(&bound) {
        let netns = NetnsInode(u32::try_from(namespace.inode()).unwrap());
        assert_eq!(found[&inode(lab_socket)].netns, Some(netns));
    }
}

#[test]
fn sockets_unknown_to_sock_diag_are_not_reported() {
    let lab = need!(Lab::new("held_unknown"));
    let namespace = lab.namespace("one");
    let sockets = namespace.run(|| {
        [
            rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap(),
            rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None).unwrap(),
            rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap(),
        ]
    });
    let engine = BpfEngine::default();
    if let Some(found) = same(&engine, &namespace) {
        assert!(found.is_empty(), "{found:?}");
    }
    drop(sockets);
}

#[test]
fn only_selected_sockets_and_details_are_reported() {
    let lab = need!(Lab::new("held_asked"));
    let namespace = lab.namespace("one");
    let udp = namespace.loopback().udp_connected();
    let raw = namespace.raw(58, true);
    let unix = namespace.unix_bound(UnixKind::Stream, &lab.unix_path("listener"));
    let engine = BpfEngine::default();
    let place = Opened::new(&namespace);
    let query = place.query();
    let reported =
        |query: &Query<'_>| pass(&engine, query).map(|found| found.into_keys().collect::<Vec<_>>());
    let listening = StateSet::EMPTY.with(State::Listen);
    let Some(found) = reported(&Query {
        states: listening,
        ..query.clone()
    }) else {
        return;
    };
    assert_eq!(found, [inode(&unix)]);
    let v6 = Families { v4: false, v6: true };
    let inet = ProtocolSet::INET;
    let found = reported(&Query {
        protocols: inet,
        families: v6,
        ..query.clone()
    });
    assert_eq!(found, Some(vec![inode(&raw)]));
    let tcp = ProtocolSet::of(&[Protocol::Tcp]);
    assert_eq!(
        reported(&Query {
            protocols: tcp,
            ..query.clone()
        }),
        Some(vec![])
    );
    let bare = pass(
        &engine,
        &Query {
            detail: Detail::NONE,
            ..query.clone()
        },
    )
    .unwrap();
    let client = &bare[&inode(&udp.client)];
    assert_eq!(
        (client.queues, client.uid, client.memory),
        (Queues::Unknown, None, None)
    );
    assert_eq!((client.mark, client.options, client.cgroup), (None, None, None));
}

#[test]
fn stopped_pass_can_be_repeated() {
    let lab = need!(Lab::new("held_stop"));
    let namespace = lab.namespace("one");
    let _sockets: Vec<_> = (0..50).map(|_| namespace.raw(1, false)).collect();
    let engine = BpfEngine::default();
    if pass(&engine, &all_but_tcp()).is_none() {
        return;
    }
    let own = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    for _ in 0..5 {
        let (mut walked, mut count) = (WalkStats::default(), 0);
        let mut three = |_: &Socket| {
            count += 1;
            if count == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        engine
            .owned_socket_programs()
            .unwrap()
            .sockets(own.as_fd(), &all_but_tcp(), &mut walked, &mut three)
            .unwrap();
        assert_eq!((count, walked.delivered, walked.stopped), (3, 3, true));
    }
    let found = pass(&engine, &Opened::new(&namespace).query()).unwrap();
    assert_eq!(found.len(), 50);
}

#[test]
fn lasting_sockets_are_reported_once_during_churn() {
    let lab = need!(Lab::new("held_churn"));
    let namespace = lab.namespace("one");
    let net_path = namespace.loopback();
    let living: Vec<_> = (0..20)
        .flat_map(|_| {
            let pair = namespace.unix_pair(UnixKind::Seqpacket);
            let udp = net_path.udp_connected();
            [pair.client, pair.server, udp.client, udp.server]
        })
        .collect();
    let engine = BpfEngine::default();
    let place = Opened::new(&namespace);
    let query = place.query();
    let Some(before) = pass(&engine, &query) else {
        return;
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Descriptors, ports, inodes and memory are reused at once.
        scope.spawn(|| {
            namespace.run(|| {
                while !over.load(Ordering::Relaxed) {
                    let pair = UnixDatagram::pair().unwrap();
                    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
                    udp.connect(udp.local_addr().unwrap()).unwrap();
                    pair.0.send(b"x").unwrap();
                    drop(pair);
                }
            });
        });
        scope.spawn(|| {
            let pairs: Vec<_> = living
                .chunks(2)
                .filter(|pair| pair[0].family == LabFamily::Unix)
                .collect();
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                for pair in &pairs {
                    pair[0].socket().send(b"packet").unwrap();
                    read(&pair[1], &mut buffer[..6]);
                }
            }
        });
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..50 {
                let found = pass(&engine, &query).unwrap();
                for lab_socket in &living {
                    let (was, is) = (&before[&inode(lab_socket)], &found.get(&inode(lab_socket)));
                    let is = is.unwrap_or_else(|| panic!("{lab_socket:?} is missing"));
                    assert_eq!((is.local, is.peer, is.state), (was.local, was.peer, was.state));
                }
            }
        }));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
}

fn read(lab_socket: &LabSocket, buffer: &mut [u8]) {
    let mut socket = lab_socket.socket();
    socket.read_exact(buffer).unwrap();
}

/// Sends a descriptor in a message.
fn send(through: &UnixStream, descriptor: BorrowedFd<'_>) {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    rustix::net::sendmsg(through, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).unwrap();
}

/// Receives one.
fn receive(from: &UnixStream) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(from, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.next().unwrap()
}

const NETLINK_SOCK_DIAG: u8 = 4;
