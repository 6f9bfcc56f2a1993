//! A queue that stands still, as pictures show it.

use super::columns::HopRow;
use sockeye_measure::duration;
use sockeye_output::unit::Unit;
use sockeye_path::Part;

/// A queue that stands still.
pub(super) struct Standing {
    /// Where it is: `in  socket`.
    pub(super) label: String,
    /// How much of it is taken; `None` if it is not known how much fits.
    pub(super) percent: Option<u8>,
    /// What is there, and for how long.
    pub(super) text: String,
}

/// Returns what a row has that stands still.
pub(super) fn standing(row: &HopRow<'_>) -> Option<Standing> {
    let waiting = row.hop.waiting.as_ref()?;
    let queued = row.hop.queued_now;
    let (what, percent) = match (waiting.bytes, row.hop.part) {
        (Some(bytes), _) => {
            let mut text = Vec::new();
            Unit::Bytes.push(&mut text, bytes.now);
            (
                String::from_utf8_lossy(&text).into_owned() + ", ",
                waiting.full_percent,
            )
        }
        (None, Some(Part::Listener { limit, .. })) => {
            let percent = limit.and_then(|limit| (queued * 100).checked_div(limit.into()));
            let percent = percent.and_then(|percent| u8::try_from(percent.min(100)).ok());
            (format!("{queued}, "), percent)
        }
        (None, _) => (String::new(), None),
    };
    Some(Standing {
        label: row.label(),
        percent,
        text: format!("{what}>={}", duration(waiting.at_least_ns)),
    })
}

#[cfg(test)]
pub(super) mod fixtures {
    use sockeye_model::{Endpoint, Inode, Memory, Port, Protocol, Queues, Socket, State};
    use sockeye_path::{Observed, PathReport, Stuck, StuckCause};

    /// A report of two connections that stand still, with the longest addresses that there can be, and no packet.
    pub(crate) fn report() -> PathReport {
        let mut report = PathReport::default();
        report.add_stuck([StuckCause::Unread, StuckCause::Connecting].map(stuck).into());
        report
    }

    fn stuck(cause: StuckCause) -> Stuck {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        let ip = "fd00:1111:2222:3333:4444:5555:6666:7777".parse().unwrap();
        socket.local = Endpoint::inet(ip, Port(50_000));
        socket.peer = Endpoint::inet(ip, Port(60_000));
        socket.inode = Some(Inode(1));
        socket.queues = Queues::Data {
            receive_bytes: 123_456,
            send_bytes: 1,
        };
        socket.memory = Some(Memory {
            rmem_alloc_bytes: Some(150_000),
            rcvbuf_bytes: Some(200_000),
            ..Memory::default()
        });
        Stuck {
            socket,
            cause,
            waits_ns: 65_000_000_000,
            observed: Observed {
                receive_max: 130_000,
                ..Observed::default()
            },
            program: None,
            other_owners: 0,
            peer: None,
            way: None,
            sent: None,
            finding: None,
            is_effect: false,
            more: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::{fit_columns, part_name, table_columns};
    use super::*;

    #[test]
    fn queue_that_stands_still_is_drawn_as_full_as_it_is() {
        let report = fixtures::report();
        let rows: Vec<HopRow<'_>> = report
            .hops
            .iter()
            .map(|hop| HopRow {
                part_name: hop.part.map(part_name),
                ..HopRow::alone(hop)
            })
            .collect();
        let drawn: Vec<_> = rows.iter().filter_map(standing).collect();
        let drawn: Vec<_> = drawn
            .iter()
            .map(|one| (one.label.trim_end(), one.percent, one.text.as_str()))
            .collect();
        let expected = [
            ("in  socket", Some(75), "123KB, >=65.00s"),
            ("out send", None, ">=65.00s"),
        ];
        assert_eq!(drawn, expected);
        // Without packets there are no columns of times.
        let names = table_columns(&rows);
        assert_eq!(names, "direction,hop,connection,waiting_bytes,waits,waits_for");
        assert!(fit_columns(&rows, &names, Some(80)).0.contains("waits"));
    }
}
