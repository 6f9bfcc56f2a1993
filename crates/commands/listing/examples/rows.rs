//! Times the rendering of 100,000 made-up rows: `cargo run --release -p sockeye-listing --example rows`.

#![allow(clippy::disallowed_methods)] // the crate is pure, its timing is not

use sockeye_model::{
    Algorithm, Comm, Cookie, Direction, Endpoint, Entry, Family, Fd, Flow, FlowKey, Inode, NoNames, Owner,
    Pid, Port, Process, Protocol, Queues, Socket, State, TcpInfo, Totals, Uid,
};
use sockeye_output::flow::{FlowLayout, FlowRow};
use sockeye_output::listing::ListingWriter;
use sockeye_output::{Details, Format, SocketLayout, SocketWriter, Summary};
use std::error::Error;
use std::io::sink;
use std::net::Ipv4Addr;
use std::time::Instant;

const ROWS: u32 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let details = Details {
        owners: true,
        timers: true,
        extended: true,
        memory: true,
        ..Details::default()
    };
    let info = Details {
        info: true,
        ..Details::default()
    };
    for (what, format, details, is_full) in [
        ("table", Format::Table, Details::default(), false),
        ("table -oemp", Format::Table, details, true),
        ("table -i, full tcp_info", Format::Table, info, true),
        ("jsonl", Format::Jsonl, info, false),
        ("jsonl, full tcp_info", Format::Jsonl, info, true),
        ("csv, all columns", Format::Csv, info, true),
    ] {
        time(what, || sockets(format, details, is_full))?;
    }
    for (what, format) in [
        ("flows table", Format::Table),
        ("flows jsonl", Format::Jsonl),
        ("flows csv", Format::Csv),
    ] {
        time(what, || flows(format))?;
    }
    Ok(())
}

/// The best of several: the others were disturbed.
fn time(what: &str, run: impl Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    let mut best_ns = u128::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        run()?;
        best_ns = best_ns.min(begin.elapsed().as_nanos());
    }
    println!("{what:26} {:6} ns/row", best_ns / u128::from(ROWS));
    Ok(())
}

fn sockets(format: Format, details: Details, is_full: bool) -> std::io::Result<()> {
    let comm = Comm::new(b"nginx");
    let process = Process {
        pid: Pid(812),
        pgid: None,
        comm,
    };
    let owners = [Owner { process, fd: Fd(6) }];
    let layout = SocketLayout {
        format,
        details,
        ..SocketLayout::default()
    };
    let mut listing = SocketWriter::new(sink(), layout);
    listing.begin()?;
    let mut socket = socket(is_full);
    for row in 0..ROWS {
        socket.peer = Endpoint::inet(Ipv4Addr::from(0x7f00_0001 + row).into(), Port(row as u16 | 1));
        socket.inode = Some(Inode(row));
        let owners = details.owners.then_some(owners.as_slice());
        listing.row(&Entry::with_owners(&socket, owners), &NoNames)?;
    }
    listing.finish(&Summary::default())
}

fn socket(is_full: bool) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.family = Family::Inet;
    socket.local = Endpoint::inet(Ipv4Addr::new(127, 0, 0, 1).into(), Port(45_678));
    socket.queues = Queues::Data {
        receive_bytes: 0,
        send_bytes: 1448,
    };
    socket.uid = Some(Uid(1000));
    socket.cookie = Some(Cookie(0xffff_1234));
    if is_full {
        // Numbers of one to seven digits, as most of a real connection's are.
        let mut bytes = [0; sockeye_wire::tcp_info::LEN];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = 10_u32.pow(place as u32 % 7).to_ne_bytes();
        }
        let wire = sockeye_wire::tcp_info::TcpInfo::new(&bytes);
        socket.tcp_info = Some(TcpInfo::from_wire(&wire, State::Established));
        socket.congestion = Some(Algorithm::new(b"cubic"));
    }
    socket
}

fn flows(format: Format) -> std::io::Result<()> {
    let layout = FlowLayout {
        format,
        ..FlowLayout::default()
    };
    let mut listing = ListingWriter::new(sink(), layout.listing());
    let mut flow = Flow::new(FlowKey {
        netns: None,
        direction: Direction::Active,
        local: Some(Ipv4Addr::LOCALHOST.into()),
        peer: None,
        peer_prefix: None,
        port: Some(Port(443)),
        process: None,
        uid: None,
        workload: None,
    });
    flow.totals = Some(Totals::default());
    listing.begin()?;
    for row in 0..ROWS {
        flow.key.peer = Some(Ipv4Addr::from(0x0a00_0001 + row).into());
        flow.connections = row;
        flow.states[1] = row;
        listing.row(&FlowRow {
            flow: &flow,
            names: &NoNames,
            protocol: Protocol::Tcp,
            has_owners: false,
        })?;
    }
    listing.finish(&Summary::default())
}
