//! Times a fold of made-up connections, each of which is a flow, and its listing, and measures its memory:
//! `cargo run --release -p sockeye-listing --example many_flows -- 1000000`.

#![allow(clippy::disallowed_methods)] // the crate is pure, its timing is not

use sockeye_flow::{Fold, Listeners};
use sockeye_model::{
    Comm, Endpoint, Entry, Family, Fd, Flow, GroupBy, NoNames, Owner, Pid, Port, Process, Protocol, Socket,
    State,
};
use sockeye_output::flow::{FlowLayout, FlowRow, Flows};
use sockeye_output::listing::{ListingWriter, SortKey};
use sockeye_output::{Format, Summary};
use std::error::Error;
use std::io::sink;
use std::net::Ipv4Addr;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args()
        .nth(1)
        .map_or(Ok(79_200), |count| count.parse())?;
    let before = peak_bytes()?;
    for (what, format, has_owners) in [
        ("table", Format::Table, false),
        ("table with owners", Format::Table, true),
        ("json", Format::Json, false),
        ("csv", Format::Csv, false),
    ] {
        let [fold, sort, write] = list(count, format, has_owners)?;
        println!("{what:18} fold {fold:4}, sort {sort:4}, write {write:4} ns a flow");
    }
    let more = peak_bytes()? - before;
    println!(
        "{count} flows, at most {} bytes a flow, the waiting rows of CSV included",
        more / u64::from(count.max(1))
    );
    Ok(())
}

/// Returns the nanoseconds for each flow.
fn list(count: u32, format: Format, has_owners: bool) -> Result<[u128; 3], Box<dyn Error>> {
    let each = |begin: Instant| begin.elapsed().as_nanos() / u128::from(count.max(1));
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    socket.family = Family::Inet;
    socket.local = Endpoint::inet(Ipv4Addr::UNSPECIFIED.into(), Port(443));
    let mut listeners = Listeners::default();
    listeners.add(&socket);
    socket.state = State::Established;
    socket.local = Endpoint::inet(Ipv4Addr::new(192, 0, 2, 1).into(), Port(443));
    let owners = [Owner {
        process: Process {
            pid: Pid(812),
            pgid: None,
            comm: Comm::new(b"nginx"),
        },
        fd: Fd(7),
    }];
    let begin = Instant::now();
    let mut fold = Fold::new(GroupBy::Host, &listeners);
    for number in 0..count {
        // An odd factor: each number once, in no order.
        let ip = Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b1));
        socket.peer = Endpoint::inet(ip.into(), Port(50_000));
        fold.add(&Entry::with_owners(&socket, has_owners.then_some(&owners[..])));
    }
    let mut flows = fold.finish().flows;
    let fold_ns = each(begin);
    let begin = Instant::now();
    flows.sort(|_| None);
    let mut reader = flows.reader();
    let sort = SortKey::<Flows>::parse("-connections").map_err(|_| "no such column")?;
    let value = |place| sort.column.sort_value(&row(reader.read(place), has_owners));
    let order = sort.order_of(flows.places().map(value));
    let sort_ns = each(begin);
    let begin = Instant::now();
    let mut layout = FlowLayout {
        format,
        ..FlowLayout::default()
    };
    layout.details.owners = has_owners;
    let mut listing = ListingWriter::new(sink(), layout.listing());
    listing.begin()?;
    for index in order {
        listing.row(&row(reader.read(index as u32), has_owners))?;
    }
    listing.finish(&Summary::default())?;
    Ok([fold_ns, sort_ns, each(begin)])
}

const fn row(flow: &Flow, has_owners: bool) -> FlowRow<'_> {
    FlowRow {
        flow,
        names: &NoNames,
        protocol: Protocol::Tcp,
        has_owners,
    }
}

/// Returns the peak of the memory of this process.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.ok_or("no VmHWM")?.parse::<u64>()? * 1024)
}
