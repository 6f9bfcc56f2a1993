//! What of a capture could not be looked at, for whoever would take silence for completeness.

use super::reading::Reading;
use crate::output::CaptureTally;
use sockeye_console::notes;

pub(crate) fn say(reading: &Reading, tally: &CaptureTally) {
    let name = reading.name();
    let mut text = String::new();
    let mut line = |count: u64, one: &str, many: &str| {
        if count > 0 {
            text.push_str(&format!(
                "sockeye: {name}: {count} {}\n",
                if count == 1 { one } else { many }
            ));
        }
    };
    let others = tally.datagrams + tally.other_ip + tally.not_ip;
    line(others, "packet is not of TCP", "packets are not of TCP");
    line(
        tally.fragments,
        "part of a cut up IP packet could not be put together",
        "parts of cut up IP packets could not be put together",
    );
    line(
        tally.undecodable,
        "packet is cut off before its TCP header, or broken: it was passed over; capture with a larger snaplen (-s)",
        "packets are cut off before their TCP headers, or broken: they were passed over; capture with a larger snaplen (-s)",
    );
    line(
        tally.bad_checksums,
        "segment has a wrong checksum (as sent: the network card makes it; as received: it was thrown away)",
        "segments have wrong checksums (as sent: the network card makes them; as received: they were thrown away)",
    );
    line(
        tally.too_long,
        "packet is longer than any can be: it was passed over",
        "packets are longer than any can be: they were passed over",
    );
    line(
        tally.of_unknown_interfaces,
        "packet is of an interface that the file does not describe: it was passed over",
        "packets are of interfaces that the file does not describe: they were passed over",
    );
    line(
        tally.without_time,
        "packet has no time of its own",
        "packets have no time of their own",
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
        "segment's acknowledgement was not looked for, as too many waited",
        "segments' acknowledgements were not looked for, as too many waited",
    );
    if let Some(dropped @ 1..) = tally.dropped {
        text.push_str(&format!(
            "sockeye: {name}: {dropped} {} lost while it was captured, for want of room: gaps may be the capture's own\n",
            if dropped == 1 { "packet was" } else { "packets were" }
        ));
    }
    if tally.is_interrupted {
        text.push_str(&format!(
            "sockeye: {name}: interrupted: only the first {} packets were read\n",
            tally.packets
        ));
    } else if tally.is_cut {
        text.push_str(&format!(
            "sockeye: {name} ends in the middle of a packet: all before was read\n"
        ));
    }
    notes::say(&text);
}
