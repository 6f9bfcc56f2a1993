//! The columns of a listing of target sockets.

use sockeye_output::Envelope;
use sockeye_output::format::{Format, Style};
use sockeye_output::listing::{Column, Layout, named_columns};
use sockeye_output::socket::Sockets;

/// How target sockets are listed.
#[derive(Debug, Clone, Default)]
pub struct TargetLayout {
    /// Output format.
    pub format: Format,
    /// Whether a table shows the protocol.
    pub netid: bool,
    /// Whether a table shows the namespace.
    pub netns: bool,
    /// Further columns: in a table before the owners, in CSV and JSON at the end.
    pub more: &'static [Column<Sockets>],
    /// Colours of a table.
    pub style: Style,
    /// Width of the terminal; `None`: not a terminal, columns are neither shortened nor wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
    /// Time of the sample and origin, for JSON and CSV.
    pub envelope: Envelope,
    /// `type` of the JSON document.
    pub document_type: &'static str,
    /// `type` of a socket in a JSON line.
    pub row_type: &'static str,
}

impl TargetLayout {
    /// Returns the layout of the listing.
    #[must_use]
    pub fn listing(self) -> Layout<Sockets> {
        let mut columns = if self.format == Format::Csv {
            named_columns(&[
                "netid", "state", "local", "peer", "netns", "inode", "cookie", "owners",
            ])
        } else {
            let all = [
                (self.netns, "netns"),
                (self.netid, "netid"),
                (true, "state"),
                (true, "local"),
                (true, "peer"),
            ];
            let shown = all.into_iter().filter(|(shown, _)| *shown);
            named_columns(&shown.map(|(_, name)| name).collect::<Vec<_>>())
        };
        columns.extend(self.more);
        if self.format != Format::Csv {
            columns.extend(named_columns(&["owners"]));
        }
        let mut layout = Layout::new(self.format, columns);
        layout.more_json = self.more.iter().collect();
        layout.style = self.style;
        layout.width = self.width;
        layout.no_header = self.no_header;
        layout.envelope = self.envelope;
        layout.document_type = self.document_type;
        layout.row_type = self.row_type;
        layout.leaves_out_empty = true;
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{
        Comm, Endpoint, Entry, Fd, NoNames, Owner, Pid, Port, Process, Protocol, Socket, State,
    };
    use sockeye_output::listing::{Align, Value};
    use sockeye_output::socket::further_value;
    use sockeye_output::unit::Unit;
    use sockeye_output::{SocketWriter, Summary};

    static MORE: &[Column<Sockets>] = &[
        Column::<Sockets>::value("on", "On", Align::Right, "", further_value),
        Column::<Sockets>::value("time_s", "Time", Align::Right, "", further_value)
            .index(1)
            .unit(Unit::Seconds),
        Column::<Sockets>::value("idle_ms", "Idle", Align::Right, "", further_value)
            .index(2)
            .unit(Unit::Ms),
        Column::<Sockets>::value("why", "Why", Align::Right, "", further_value).index(3),
        Column::<Sockets>::value("count", "Count", Align::Right, "", further_value).index(4),
    ];

    fn written(format: Format) -> String {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(22));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(50000));
        let owners = [Owner {
            process: Process {
                pid: Pid(7),
                pgid: None,
                comm: Comm::new(b"=a\x1b[1m"),
            },
            fd: Fd(3),
        }];
        let entry = Entry::with_owners(&socket, Some(&owners));
        let mut out = Vec::new();
        let layout = TargetLayout {
            format,
            more: MORE,
            ..TargetLayout::default()
        };
        let mut writer = SocketWriter::with_columns(&mut out, layout.listing());
        writer.begin().unwrap();
        let values = [
            Value::Switch(false),
            Value::Number(7200),
            Value::Number(1500),
            Value::Text(b"a\x1b, b"),
            Value::Absent,
        ];
        writer.row_with(&entry, &NoNames, &values).unwrap();
        writer
            .finish_with(&Summary::default(), |object| object.number("asked", Some(1_u32)))
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_has_further_columns_before_owners_and_no_escapes() {
        assert_eq!(
            written(Format::Table),
            "State  Local Address:Port  Peer Address:Port   On  Time  Idle       Why  Count  Process\n\
             ESTAB  10.0.0.1:22         10.0.0.2:50000     off    2h  1.5s  a\\x1b, b      -  =a\\x1b[1m(7,fd=3)\n"
        );
    }

    #[test]
    fn json_has_further_values_by_name() {
        let text = written(Format::Json);
        assert!(
            text.contains(r#","on":false,"time_s":7200,"idle_ms":1500,"why":"a\u001b, b"}"#),
            "{text}"
        );
        assert!(text.contains("\"asked\":1,\"losses\":{"), "{text}");
        let lines = written(Format::Jsonl);
        assert!(
            lines
                .lines()
                .last()
                .unwrap()
                .contains("\"summary\":{\"asked\":1,"),
            "{lines}"
        );
    }

    #[test]
    fn csv_has_further_values_at_the_end() {
        let text = written(Format::Csv);
        let (header, line) = text.split_once("\r\n").unwrap();
        assert!(header.ends_with(",owners,on,time_s,idle_ms,why"), "{header}");
        assert!(line.ends_with(",false,7200,1500,\"a\\x1b, b\"\r\n"), "{line}");
    }
}
