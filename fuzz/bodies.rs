//! Bodies of the fuzz targets for parsers, and of the test that replays their corpus.
//!
//! Each checks what the parser promises, in addition to the absence of panics.
#![allow(dead_code)] // each target uses one of these

use sockeye_model::{
    Container, Device, DiagDetails, Endpoint, Losses, NeighbourTable, Protocol, Qdisc, Queues, Socket,
    Softnet, State, TcpInfo, WalkLayout,
};
use sockeye_wire::btf::relocation::{self, Relocation, RelocationKind, RelocationTarget};
use sockeye_wire::btf::{self, Answer, Btf, Query, TypeKind};
use sockeye_wire::connections::{Event, Totals};
use sockeye_wire::drops::{self, Counts, DropSocket, Key, Sample};
use sockeye_wire::inet_diag::InetDiag;
use sockeye_wire::netlink::{Attributes, Messages};
use sockeye_wire::netlink_diag::{Groups, NetlinkDiag};
use sockeye_wire::packet::{self, Decoded, FileError, LinkType, Reader, Record, Step, decode, pcap, pcapng};
use sockeye_wire::packet_diag::{Info, PacketDiag, Ring, memberships};
use sockeye_wire::perf::{self, Records};
use sockeye_wire::proc_maps::executable;
use sockeye_wire::proc_net::{
    CounterTable, DeviceLine, Igmp6Line, IgmpLine, Inet6Line, InetLine, NetlinkLine, PacketLine, Route6Line,
    RouteLine, SockstatLine, SoftnetLine, UnixLine, counter_lines, is_header,
};
use sockeye_wire::proc_pid::{Stat, cgroup_lines, netns_inode, open_files_max, socket_inode};
use sockeye_wire::tcp_info::TcpInfo as WireTcpInfo;
use sockeye_wire::unix_diag::{UnixDiag, Vfs, waiting};
use sockeye_wire::walk::{self, KernelClock, Reply, detail, hz, nets, records};
use sockeye_wire::{Error, conntrack, ethtool, netlink, nf_tables, proc_sys, rtnetlink};

/// Parses a received buffer: each message as every kind, whatever family it has.
pub(crate) fn netlink_messages(bytes: &[u8]) {
    let mut walked = 0;
    for message in Messages::new(bytes) {
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                check_error(&error, bytes.len());
                continue;
            }
        };
        walked += 1;
        let _ = message.interrupted();
        if matches!(message.kind, netlink::NLMSG_ERROR | netlink::NLMSG_DONE) {
            let _ = message.outcome();
        }
        payload(message.payload);
    }
    assert!(walked <= bytes.len() / 16 + 1);
    // As a payload too, so that no envelope has to be guessed.
    payload(bytes);
}

fn payload(bytes: &[u8]) {
    for protocol in [
        Protocol::Tcp,
        Protocol::UnixStream,
        Protocol::PacketRaw,
        Protocol::Netlink,
    ] {
        let details = DiagDetails::read(protocol, bytes);
        let lists = details.waiting().map_or(0, Iterator::count)
            + details.filter().map_or(0, |program| program.len())
            + details.md5_keys().map_or(0, Iterator::count);
        assert!(lists <= bytes.len(), "no list is longer than its bytes");
    }
    match InetDiag::parse(bytes) {
        Ok(wire) => {
            for protocol in [Protocol::Tcp, Protocol::Mptcp, Protocol::Udp, Protocol::Raw] {
                converted(Socket::from_inet_diag(&wire, protocol), bytes.len());
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    for outcome in [
        rtnetlink::Link::parse(bytes)
            .map(|link| Device::from(&link))
            .map(drop),
        rtnetlink::Address::parse(bytes).map(drop),
        rtnetlink::InterfaceAddress::parse(bytes).map(drop),
        rtnetlink::Qdisc::parse(bytes)
            .map(|qdisc| Qdisc::from_wire(&qdisc))
            .map(drop),
        rtnetlink::NeighbourTable::parse(bytes)
            .map(|table| NeighbourTable::from_wire(&table))
            .map(drop),
        conntrack::Conntrack::parse(bytes).map(drop),
        nf_tables::Chain::parse(bytes).map(drop),
        nf_tables::Rule::parse(bytes).map(drop),
        nf_tables::Elements::parse(bytes).map(drop),
        ethtool::LinkModes::parse(bytes).map(drop),
        ethtool::family(bytes).map(drop),
    ] {
        let _ = outcome.map_err(|error| check_error(&error, bytes.len()));
    }
    match UnixDiag::parse(bytes) {
        Ok(wire) => {
            converted(Socket::from_unix_diag(&wire), bytes.len());
            for attribute in wire.attributes().flatten() {
                let _ = Vfs::parse(attribute.payload);
                assert!(waiting(attribute.payload).count() == attribute.payload.len() / 4);
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    match PacketDiag::parse(bytes) {
        Ok(wire) => {
            converted(Socket::from_packet_diag(&wire), bytes.len());
            for attribute in wire.attributes().flatten() {
                let _ = (Info::parse(attribute.payload), Ring::parse(attribute.payload));
                assert!(memberships(attribute.payload).count() == attribute.payload.len() / 44);
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    match NetlinkDiag::parse(bytes) {
        Ok(wire) => {
            converted(Socket::from_netlink_diag(&wire), bytes.len());
            for attribute in wire.attributes().flatten() {
                let _ = Groups::new(attribute.payload).first_32();
            }
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    let mut held = 0;
    for attribute in Attributes::new(bytes).flatten() {
        held += 4 + attribute.payload.len();
    }
    assert!(held <= bytes.len());
}

/// The struct, alone and as an attribute, of a listener and of a connection.
pub(crate) fn tcp_info(bytes: &[u8]) {
    let wire = WireTcpInfo::new(bytes);
    for state in [State::Established, State::Listen] {
        let info = TcpInfo::from_wire(&wire, state);
        let mut fields = 0;
        info.visit(|_, value| fields += usize::from(value.is_some()));
        assert!(fields <= TcpInfo::NAMES.len());
        // More bytes never take a field away, but for the number that means "unknown".
        if let Some(shorter) = bytes.len().checked_sub(1) {
            let mut fewer = 0;
            TcpInfo::from_wire(&WireTcpInfo::new(&bytes[..shorter]), state)
                .visit(|_, value| fewer += usize::from(value.is_some()));
            assert!(fewer <= fields + 1);
        }
        let _ = info.ca_state();
    }
}

/// Records and map values of the programs at tracepoints: what a kernel with other layouts, or a broken ring, could hand over.
pub(crate) fn live_records(bytes: &[u8]) {
    let event = Event::read(bytes);
    let totals = Totals::read(bytes);
    assert!(event.is_some() || bytes.len() < Event::BYTES);
    assert!(totals.is_none() || event.is_some(), "they follow the event");
    assert_eq!(Key::read(bytes).is_some(), bytes.len() >= Key::BYTES);
    if let Some(key) = Key::read(bytes) {
        let index = drops::index_of(key.reason);
        assert!(index < drops::INDEXES);
        assert!(drops::reason_at(index).is_none_or(|reason| reason == key.reason));
    }
    if let Some(packet) = drops::Packet::read(bytes) {
        assert_eq!(Key::read(&bytes[8..]), Some(packet.key));
        check_drop(packet.socket.as_ref(), &packet.sample);
    }
    if let Some(counts) = Counts::read(bytes) {
        assert!(counts.samples.len() <= drops::SAMPLES);
        for sample in &counts.samples {
            check_drop(counts.socket.as_ref(), sample);
        }
    }
}

fn check_drop(socket: Option<&DropSocket>, sample: &Sample) {
    assert!(socket.is_none_or(|socket| socket.family != 0), "absent is None");
    let Some(headers) = sample.decoded() else { return };
    assert!(usize::from(sample.captured) <= drops::HEADERS);
    assert_eq!(headers.source.is_ipv4(), headers.destination.is_ipv4());
    assert_eq!(headers.source_port.is_some(), headers.destination_port.is_some());
    // Fewer bytes may hide the ports, and the route in the options that the last destination is in, but never change the sender.
    let mut shorter = *sample;
    shorter.captured -= 1;
    if let Some(fewer) = shorter.decoded() {
        assert_eq!(fewer.source, headers.source);
        assert!(fewer.source_port.is_none() || fewer.source_port == headers.source_port);
    }
}

/// Lines, each taken for every kind there is.
pub(crate) fn proc_lines(bytes: &[u8]) {
    let mut losses = Losses::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = is_header(line);
        let mut lost = |error: Error| {
            check_error(&error, line.len());
            losses.broken_records += 1;
        };
        match InetLine::parse(line) {
            Ok(inet) => {
                assert!(!is_header(line));
                for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Raw] {
                    let socket = Socket::from_proc_inet(&inet, protocol);
                    assert_eq!(socket.local.port().map(|port| port.0), Some(inet.local.port));
                    check_socket(&socket);
                }
                // Wider columns parse to the same.
                let mut wider = line.to_vec();
                wider.insert(0, b' ');
                wider.extend_from_slice(b"   \n");
                assert_eq!(InetLine::parse(&wider), Ok(inet));
            }
            Err(error) => lost(error),
        }
        match UnixLine::parse(line) {
            Ok(unix) => check_socket(&Socket::from_proc_unix(&unix)),
            Err(error) => lost(error),
        }
        match PacketLine::parse(line) {
            Ok(packet) => check_socket(&Socket::from_proc_packet(&packet)),
            Err(error) => lost(error),
        }
        match NetlinkLine::parse(line) {
            Ok(netlink) => check_socket(&Socket::from_proc_netlink(&netlink)),
            Err(error) => lost(error),
        }
        let _ = (RouteLine::parse(line), Route6Line::parse(line));
        let _ = (IgmpLine::parse(line), Igmp6Line::parse(line));
        let _ = (DeviceLine::parse(line), Inet6Line::parse(line));
        let _ = SoftnetLine::parse(line).map(|softnet| Softnet::from_wire(&softnet, 0));
        let _ = SockstatLine::parse(line).and_then(|usage| usage.value(b"inuse"));
        let _ = (proc_sys::numbers::<3>(line), open_files_max(line));
        let listed = proc_sys::count_listed(line, 0, u16::MAX);
        assert!(proc_sys::count_listed(line, 1000, 2000) <= listed, "{line:?}");
    }
    assert!(counter_lines(bytes).count() <= bytes.len());
    for table in CounterTable::all(bytes).flatten() {
        assert!(table.counters().count() <= bytes.len());
    }
}

/// A `stat`, and link targets.
pub(crate) fn proc_pid(bytes: &[u8]) {
    match Stat::parse(bytes) {
        Ok(stat) => {
            // Written again from what was read, it reads the same.
            let mut again = format!("{} (", stat.pid).into_bytes();
            again.extend_from_slice(stat.comm);
            again.extend_from_slice(b") ");
            again.push(stat.state);
            again.extend_from_slice(format!(" {} {} 0", stat.parent, stat.group).as_bytes());
            assert_eq!(Stat::parse(&again), Ok(stat));
        }
        Err(error) => check_error(&error, bytes.len()),
    }
    if let Some(inode) = socket_inode(bytes) {
        assert_eq!(socket_inode(format!("socket:[{inode}]").as_bytes()), Some(inode));
        assert_eq!(netns_inode(bytes), None);
    }
    if let Some(inode) = netns_inode(bytes) {
        assert_eq!(netns_inode(format!("net:[{inode}]").as_bytes()), Some(inode));
    }
    for line in cgroup_lines(bytes) {
        assert!(line.path.starts_with(b"/"), "{line:?}");
        if let Some(container) = Container::from_cgroup(line.path) {
            let name = container.name();
            assert!(!name.is_empty() && name.starts_with(container.short_name()));
            assert!(container.matches_text(name) && container.matches_text(container.short_name()));
            assert!(!container.to_string().is_empty());
        }
    }
    let any = cgroup_lines(bytes).any(|line| Container::from_cgroup(line.path).is_some());
    assert_eq!(Container::from_cgroup_file(bytes).is_some(), any);
}

/// Parses a BTF blob, and queries the words in it.
pub(crate) fn btf(bytes: &[u8]) {
    let parsed = match Btf::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return check_btf_error(&error, bytes.len()),
    };
    let words: Vec<&str> = bytes
        .split(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'))
        .filter_map(|word| std::str::from_utf8(word).ok())
        .filter(|word| !word.is_empty())
        .collect();
    let mut words = &words[words.len().saturating_sub(8)..]; // the strings are usually at the end
    if words.is_empty() {
        words = &["sock"];
    }
    let paths: Vec<String> = words
        .iter()
        .flat_map(|word| {
            [
                (*word).to_owned(),
                format!("{word}.{}", words[0]),
                format!("{0}.{word}.{word}", words[0]),
            ]
        })
        .collect();
    let mut queries = vec![];
    for &structure in words {
        queries.push(Query::Size { structure });
        queries.extend(paths.iter().map(|path| Query::Field { structure, path }));
        for kind in [
            TypeKind::Struct,
            TypeKind::Union,
            TypeKind::Enum,
            TypeKind::Func,
            TypeKind::Typedef,
        ] {
            queries.push(Query::Type {
                kind,
                name: structure,
            });
        }
        for enumeration in [None, Some(words[0])] {
            queries.push(Query::Enumerator {
                enumeration,
                name: structure,
            });
        }
        queries.push(Query::Parameters { typedef: structure });
    }
    let answers = match parsed.answer(&queries) {
        Ok(answers) => answers,
        Err(error) => {
            // Whether a blob can be read does not depend on the queries.
            assert_eq!(parsed.answer(&[]), Err(error));
            return check_btf_error(&error, bytes.len());
        }
    };
    assert_eq!(answers.iter().len(), queries.len());
    for (question, answer) in queries.iter().zip(answers.iter()) {
        match (question, answer) {
            (_, None) | (Query::Size { .. }, Some(Answer::Size(_))) => {}
            (Query::Field { .. }, Some(Answer::Field(at))) => {
                if let Some(bits) = at.bits {
                    assert!(bits.size > 0 && matches!(at.size_bytes, 1 | 2 | 4 | 8));
                    assert!(u32::from(bits.shift) + u32::from(bits.size) <= at.size_bytes * 8);
                    assert_eq!(at.offset_bytes % at.size_bytes, 0);
                }
            }
            (Query::Type { .. }, Some(Answer::Type(id))) => {
                assert!(id.0 > 0 && id.0 as usize <= bytes.len() / 12);
            }
            (Query::Enumerator { .. }, Some(Answer::Enumerator(_))) => {}
            (Query::Parameters { .. }, Some(Answer::Parameters(count))) => {
                assert!(count as usize <= bytes.len() / 8, "each has eight bytes");
            }
            other => panic!("{other:?}"),
        }
    }
    // The answers do not depend on the order of the queries.
    queries.reverse();
    let again = parsed.answer(&queries).expect("it was read before");
    assert!(
        answers
            .iter()
            .eq((0..queries.len()).rev().map(|place| again.get(place)))
    );
}

/// Parses the length of a `.BTF.ext` in two bytes, that section, and its `.BTF`.
pub(crate) fn relocations(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let (ext, types) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    let Ok(types) = Btf::parse(types) else { return };
    let all = match relocation::read(&types, ext) {
        Ok(all) => all,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(all.len() <= ext.len() / 16);
    // Queries the object's own types, as if they were the kernel's.
    let queries: Vec<_> = all.iter().map(Relocation::query).collect();
    let Ok(answers) = types.answer(&queries) else {
        return;
    };
    for (relocation, answer) in all.iter().zip(answers.iter()) {
        match &relocation.target {
            RelocationTarget::Field { structure, path, .. } => {
                assert!(!structure.is_empty() && !path.is_empty() && path.len() <= 32 * bytes.len());
            }
            RelocationTarget::Type { name, .. } => assert!(!name.is_empty()),
        }
        let (value, without) = (relocation.value(answer), relocation.value(None));
        match relocation.kind {
            RelocationKind::FieldExists => assert!(value.is_some_and(|is| is <= 1) && without == Some(0)),
            RelocationKind::FieldLeftShift | RelocationKind::FieldRightShift => {
                assert!(value.is_none_or(|shift| shift <= 64) && without.is_none());
            }
            _ => assert_eq!(without, None),
        }
        // An answer of another kind than the query gives no value.
        for other in [
            Answer::Enumerator(1),
            Answer::Size(1),
            Answer::Type(btf::TypeId(1)),
        ] {
            let _ = relocation.value(Some(other));
        }
    }
}

/// What a program left in its slot: a reply of 64 bytes, then records.
pub(crate) fn walk(bytes: &[u8]) {
    const REPLY_AT: usize = 256;
    const RECORDS_AT: usize = walk::SLOT_BYTES - 512 * 1024;
    let (reply, rest) = bytes.split_at(bytes.len().min(64));
    let mut slot = vec![0; RECORDS_AT + rest.len()];
    slot[REPLY_AT..REPLY_AT + reply.len()].copy_from_slice(reply);
    slot[RECORDS_AT..].copy_from_slice(rest);
    let Some(mut reply) = Reply::read(&slot) else {
        panic!("a slot is longer than a reply");
    };
    assert!(nets(&slot, &reply).count() <= walk::SLOT_BYTES / 16);
    let now = KernelClock {
        hz: hz(reply.jiffies, reply.ktime_ns).unwrap_or_default(),
        jiffies: reply.jiffies,
        ktime_ns: reply.ktime_ns,
    };
    for used in [reply.used, rest.len() as u32] {
        reply.used = used;
        let mut all = records(&slot, &reply);
        let (mut bytes, mut count) = (0, 0);
        let mut socket = Socket::new(Protocol::Raw, State::Close);
        for record in &mut all {
            count += 1;
            bytes += 128;
            for (section, len) in [
                (detail::MEMORY, 40),
                (detail::TCP_INFO, 304),
                (detail::CONGESTION, 40),
            ] {
                bytes += if record.has(section) { len } else { 0 };
            }
            for is_known in [true, false] {
                let kernel = WalkLayout {
                    option_bits: is_known.then_some([7, 63, 64, 255, 0, 1, 2, 3, 4, 5, 6]),
                    has_cgroups: is_known,
                    service_class: is_known,
                    netns: is_known,
                };
                socket.read_walk_record(&record, now, &kernel);
                check_socket(&socket);
                assert_eq!(socket.protocol, Protocol::Tcp);
                assert_eq!(socket.netns.is_some(), is_known);
                // Read into a value that had another socket, it is the same.
                let mut again = Socket::new(Protocol::Udp, State::Listen);
                again.read_walk_record(&record, now, &kernel);
                assert_eq!(again, socket);
            }
        }
        assert!(bytes <= rest.len() && count <= rest.len() / 128);
        assert!(all.next().is_none() && (!all.is_broken() || used > 0));
    }
}

/// Parses the bytes as the ring of a perf event and, as text, as the mappings of a process.
pub(crate) fn perf_records(bytes: &[u8]) {
    let mut records = 0;
    for record in Records::new(bytes) {
        records += 1;
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                check_error(&error, bytes.len());
                assert!(error.got < error.needed, "{error}");
                continue;
            }
        };
        match record.body {
            perf::Body::Sample(sample) => {
                let chain = sample.chain().count();
                assert!(chain * 8 <= bytes.len());
                // From (u64)-4095 on they are no addresses: PERF_CONTEXT_MAX.
                assert!(
                    sample
                        .chain()
                        .all(|(_, address)| address < 4095_u64.wrapping_neg())
                );
            }
            perf::Body::Mapping(mapping) => assert!(!mapping.path.contains(&0)),
            perf::Body::Comm { name, .. } => assert!(!name.contains(&0)),
            _ => {}
        }
    }
    assert!(records <= bytes.len() / 8 + 1);
    for line in executable(bytes) {
        assert!(line.start < line.end);
        let path = line.path();
        assert!(path.len() <= bytes.len());
        // Written again from what was read, it reads the same.
        let again = format!(
            "{:08x}-{:08x} r-xp {:08x} {:02x}:{:02x} {} ",
            line.start, line.end, line.offset, line.device.0, line.device.1, line.inode
        );
        let mut again = again.into_bytes();
        for byte in &path {
            match byte {
                b'\n' => again.extend(b"\\012"),
                byte => again.push(*byte),
            }
        }
        let read: Vec<_> = executable(&again).collect();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].start, read[0].offset, read[0].path()),
            (line.start, line.offset, path)
        );
    }
}

/// A captured packet: its link type and what was not captured of it in two bytes each, then what was.
pub(crate) fn packets(bytes: &[u8]) {
    let Some(([link_high, link_low, lost_high, lost_low], captured)) = bytes.split_first_chunk() else {
        return;
    };
    let link_type = LinkType(u16::from_be_bytes([*link_high, *link_low]));
    let original_len = captured.len() as u32 + u32::from(u16::from_be_bytes([*lost_high, *lost_low]));
    let whole = decode(link_type, captured, original_len);
    match &whole {
        Ok(Decoded::Segment(segment)) => {
            assert!(
                segment.tunnels > 0 || segment.payload_len <= original_len,
                "{segment:?}"
            );
            assert!(segment.options.window_scale.is_none_or(|shift| shift <= 14));
            assert_eq!(segment.source.is_ipv4(), segment.ip_id.is_some());
        }
        Ok(Decoded::Fragment(fragment)) => {
            assert!(fragment.segment.is_none() || (fragment.offset == 0 && fragment.has_more));
            assert!(
                // In a tunnel the segment has a length of its own.
                fragment
                    .segment
                    .is_none_or(|segment| segment.tunnels > 0 || segment.payload_len <= fragment.len)
            );
        }
        Ok(_) => {}
        Err(error) => check_error(error, captured.len()),
    }
    // The beginning of a packet decodes to the same as all of it, except for options and the checksum.
    let shorter = captured.len() / 2;
    for len in [shorter, captured.len().saturating_sub(1)] {
        if let (Ok(Decoded::Segment(part)), Ok(Decoded::Segment(whole))) =
            (decode(link_type, &captured[..len], original_len), &whole)
            && part.tunnels == whole.tunnels
        {
            let mut same = *whole;
            (same.options, same.bad_checksum) = (part.options, part.bad_checksum);
            assert_eq!(part, same);
            assert!(part.options.is_cut || whole.options.is_cut || part.options == whole.options);
        }
    }
    let _ = packet::Cooked::read(link_type, captured);
}

/// Reads a capture file, writes its packets, and reads them again.
pub(crate) fn captures(bytes: &[u8]) {
    let (packets, end) = read_capture(bytes, usize::MAX);
    if let Err(error) = &end {
        assert!(!error.to_string().is_empty());
    }
    // Read in the smallest pieces that the reader accepts, it gives the same.
    let (again, end_again) = read_capture(bytes, 0);
    assert_eq!(packets, again);
    assert_eq!(end.is_ok(), end_again.is_ok());
    let mut written = vec![];
    let mut nanoseconds = vec![];
    pcapng::section(&mut written, &pcapng::Section::default());
    pcap::header(&mut nanoseconds, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    let mut links: Vec<LinkType> = vec![];
    let (mut fragments, mut fragmented) = (packet::Fragments::default(), 0);
    for (record, captured) in &packets {
        let known = links.iter().position(|link| *link == record.link_type);
        let interface = known.unwrap_or_else(|| {
            pcapng::interface(&mut written, &pcapng::Interface::new(record.link_type, 0));
            links.push(record.link_type);
            links.len() - 1
        });
        let block = pcapng::Packet {
            captured,
            original_len: record.original_len,
            comment: Some("again"),
            dropped: Some(7),
            ..pcapng::Packet::new(interface as u32, record.time_ns, &[])
        };
        pcapng::packet(&mut written, &block);
        let time_ns = record.time_ns % (1 << 32);
        pcap::packet(
            &mut nanoseconds,
            pcap::Resolution::Nanoseconds,
            time_ns,
            captured,
            record.original_len,
        );
        if let Ok(Decoded::Fragment(fragment)) = decode(record.link_type, captured, record.original_len) {
            let whole = fragments.add(&fragment);
            assert!(
                whole.is_none_or(|whole| !whole.source.is_unspecified() || fragment.source.is_unspecified())
            );
            fragmented += 1;
        }
        assert!(fragments.incomplete() <= fragmented);
    }
    for (file, keeps_links) in [(&written, true), (&nanoseconds, false)] {
        let (again, end) = read_capture(file, usize::MAX);
        assert_eq!(end, Ok(()));
        assert_eq!(again.len(), packets.len());
        for ((ours, captured), (theirs, captured_before)) in again.iter().zip(&packets) {
            assert_eq!(
                (captured, ours.original_len),
                (captured_before, theirs.original_len)
            );
            if keeps_links {
                assert_eq!((ours.link_type, ours.time_ns), (theirs.link_type, theirs.time_ns));
                let options = pcapng::Options::new(&file[ours.options.clone()], ours.is_big_endian);
                assert_eq!((options.comment(), options.dropped()), (Some("again"), Some(7)));
            } else {
                assert_eq!(ours.time_ns, theirs.time_ns % (1 << 32));
            }
        }
    }
}

/// Packets with their bytes
type Packets = Vec<(Record, Vec<u8>)>;

/// Returns the packets of a file, and how it ended. The reader gets `piece` bytes at first, then as many as it needs. Ranges of
/// options are those in the file.
fn read_capture(file: &[u8], piece: usize) -> (Packets, Result<(), FileError>) {
    let mut packets = vec![];
    let mut reader = match Reader::new(file) {
        Ok(Some(reader)) => reader,
        Ok(None) => return (packets, Ok(())),
        Err(error) => return (packets, Err(error)),
    };
    let (mut at, mut len) = (0, piece);
    loop {
        let rest = &file[at..];
        let here = &rest[..len.min(rest.len())];
        assert_eq!(reader.offset(), at as u64);
        match reader.step(here) {
            Ok(Step::Packet(mut record)) => {
                assert!(record.used > 0 && record.used <= here.len());
                let captured = here[record.captured.clone()].to_vec();
                for entry in pcapng::Options::new(&here[record.options.clone()], record.is_big_endian) {
                    assert!(entry.value.len() <= here.len());
                }
                let used = record.used;
                record.options = at + record.options.start..at + record.options.end;
                packets.push((record, captured));
                (at, len) = (at + used, piece);
            }
            Ok(Step::Skip(used) | Step::NotAPacket(used)) => {
                assert!(used > 0);
                if used > rest.len() as u64 {
                    return (packets, Ok(()));
                }
                (at, len) = (at + used as usize, piece);
            }
            Ok(Step::Needs(missing)) => {
                assert!(
                    missing.needed > here.len() && missing.got == here.len(),
                    "{missing}"
                );
                assert!(missing.needed <= 512 * 1024, "{missing}");
                if here.len() == rest.len() {
                    return (packets, Ok(()));
                }
                len = missing.needed;
            }
            Err(error) => return (packets, Err(error)),
        }
    }
}

/// An error points into the blob, and can be printed.
fn check_btf_error(error: &btf::Error, len: usize) {
    match error {
        btf::Error::Short(short) => {
            check_error(short, len);
            assert!(short.got < short.needed, "{error}");
        }
        btf::Error::Kind { offset, .. } => assert!(*offset < len, "{error}"),
        _ => {}
    }
    assert!(!error.to_string().is_empty());
}

fn converted(socket: Result<Socket, Error>, len: usize) {
    match socket {
        Ok(socket) => check_socket(&socket),
        Err(error) => check_error(&error, len),
    }
}

/// Checks the invariants of every socket, whatever its source.
fn check_socket(socket: &Socket) {
    assert_ne!(socket.inode.map(|inode| inode.0), Some(0), "absent is None");
    assert_ne!(socket.interface.map(|index| index.0), Some(0), "absent is None");
    if let Queues::Accept { .. } = socket.queues {
        assert_eq!(socket.state, State::Listen);
    }
    if let Endpoint::Unix { inode, .. } = socket.local {
        assert_eq!(inode, socket.inode);
    }
    if let Some(timer) = socket.timer {
        assert!(timer.expires_ms <= u32::MAX / 2);
    }
    let _ = socket.is_listener();
}

/// An error points into what was given, and can be printed.
fn check_error(error: &Error, len: usize) {
    assert!(error.offset <= len, "{error}");
    assert!(!error.to_string().is_empty());
}
