//! Notes about packets of a capture that were not analysed.

use super::reader::CaptureReader;
use crate::output::CaptureTally;
use sockeye_console::notes;
use sockeye_model::counted_were;

/// Reports on stderr how many packets were skipped or lost, and why.
pub(crate) fn report(reader: &CaptureReader, tally: &CaptureTally) {
    let name = reader.name();
    let mut text = String::new();
    let mut line = |count: u64, one: &str, many: &str| {
        if count > 0 {
            text.push_str(&format!(
                "sockeye: {name}: {count} {}\n",
                if count == 1 { one } else { many }
            ));
        }
    };
    for (link_type, packets) in tally.unsupported_links.counts() {
        line(
            packets,
            &format!("packet has link type {link_type}, which is not supported: it was not looked at"),
            &format!("packets have link type {link_type}, which is not supported: they were not looked at"),
        );
    }
    line(
        tally.unsupported_links.others(),
        "packet has another link type that is not supported",
        "packets have other link types that are not supported",
    );
    let others = tally.datagrams + tally.other_ip + tally.not_ip;
    line(others, "packet is not of TCP", "packets are not of TCP");
    line(
        tally.fragments,
        "fragment of an IP packet could not be reassembled",
        "fragments of IP packets could not be reassembled",
    );
    line(
        tally.undecodable,
        "packet is cut off before its TCP header, or broken: it was skipped; capture with a larger snaplen (-s)",
        "packets are cut off before their TCP headers, or broken: they were skipped; capture with a larger snaplen (-s)",
    );
    line(
        tally.bad_checksums,
        "segment has a wrong checksum (if sent: the network card computes it; if received: the kernel dropped it)",
        "segments have wrong checksums (if sent: the network card computes them; if received: the kernel dropped them)",
    );
    line(
        tally.too_long,
        "packet is longer than the limit: it was skipped",
        "packets are longer than the limit: they were skipped",
    );
    line(
        tally.of_unknown_interfaces,
        "packet is of an interface that the file does not describe: it was skipped",
        "packets are of interfaces that the file does not describe: they were skipped",
    );
    line(
        tally.without_time,
        "packet has no timestamp",
        "packets have no timestamps",
    );
    line(
        tally.times_backwards,
        "segment is older than the one before it: merged captures, or a clock that was set",
        "segments are older than the ones before them: merged captures, or a clock that was set",
    );
    line(
        tally.connections_cut_short,
        "connection was concluded early, as there were too many at once: what followed counts as another one",
        "connections were concluded early, as there were too many at once: what followed counts as others",
    );
    line(
        tally.not_waited_for,
        "segment's acknowledgement was not tracked, as too many were outstanding",
        "segments' acknowledgements were not tracked, as too many were outstanding",
    );
    if let Some(dropped @ 1..) = tally.dropped {
        text.push_str(&format!(
            "sockeye: {name}: {} lost while it was captured, as the buffer was full: gaps may be due to the capture\n",
            counted_were(dropped, "packet")
        ));
    }
    if tally.is_interrupted {
        text.push_str(&format!(
            "sockeye: {name}: interrupted: only the first {} read, in {}\n",
            counted_were(tally.packets, "packet"),
            reader.bytes_read()
        ));
    } else if tally.is_cut {
        text.push_str(&format!(
            "sockeye: {name} ends in the middle of a packet: all before was read\n"
        ));
    }
    notes::say(&text);
}
