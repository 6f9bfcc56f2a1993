//! Listings of sockets with columns that are not the sockets' own: what was done to them, what their owners set.

use crate::cell::{self, Scratch};
use crate::column::{Align, SocketColumn};
use crate::csv::{self, Line};
use crate::format::{Format, Style, Summary};
use crate::json::{Object, push_summary_fields};
use crate::number::{push_decimal, push_time_us};
use crate::rows::Output;
use crate::socket_json;
use crate::table::{Heading, Table, Tint};
use crate::text::push_clean;
use sockeye_model::{Entry, Names};
use std::io::{self, Write};

/// A column beside those of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annex {
    /// Name, in JSON and CSV.
    pub name: &'static str,
    /// What stands over it in a table.
    pub header: &'static str,
    /// To which side it leans there.
    pub align: Align,
}

/// What stands in such a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact<'a> {
    /// Nothing is known.
    Absent,
    /// A count.
    Number(u64),
    /// A time in seconds.
    Seconds(u64),
    /// A time in milliseconds.
    Ms(u64),
    /// On or off.
    Switch(bool),
    /// Text, possibly from outside.
    Text(&'a str),
}

/// How such sockets are to be listed.
#[derive(Debug, Clone, Default)]
pub struct AnnexedLayout {
    /// In which form.
    pub format: Format,
    /// Whether a table says of which protocol they are.
    pub netid: bool,
    /// Whether a table says in which namespace they are.
    pub netns: bool,
    /// The other columns. In a table they stand before the owners, in CSV at the end.
    pub annexes: &'static [Annex],
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal behind a table; `None`: not a terminal, nothing is squeezed or wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
}

/// Writes a listing of sockets with annexes: [`begin`](Self::begin), [`row`](Self::row) for each,
/// [`finish`](Self::finish).
///
/// ```
/// use sockeye_model::{Endpoint, Entry, NoNames, Port, Protocol, Socket, State};
/// use sockeye_output::{Align, Annex, AnnexedLayout, AnnexedWriter, Fact, Summary};
///
/// let mut socket = Socket::new(Protocol::Tcp, State::Established);
/// socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(80));
/// socket.peer = Endpoint::inet([127, 0, 0, 1].into(), Port(40000));
///
/// let annexes = &[Annex { name: "outcome", header: "Outcome", align: Align::Left }];
/// let mut out = Vec::new();
/// let mut listing = AnnexedWriter::new(&mut out, AnnexedLayout { annexes, ..AnnexedLayout::default() });
/// listing.begin()?;
/// listing.row(&Entry::new(&socket), &NoNames, &[Fact::Text("closed")])?;
/// listing.finish(&Summary::default(), |_| ())?;
/// assert_eq!(
///     String::from_utf8_lossy(&out),
///     "State  Local Address:Port  Peer Address:Port  Outcome  Process\n\
///      ESTAB  127.0.0.1:80        127.0.0.1:40000    closed\n"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AnnexedWriter<W> {
    output: Output<W>,
    layout: AnnexedLayout,
    columns: Vec<SocketColumn>,
    table: Table,
    scratch: Scratch,
    rows: usize,
}

impl<W: Write> AnnexedWriter<W> {
    /// A listing into `writer`; nothing is written yet.
    pub fn new(writer: W, layout: AnnexedLayout) -> Self {
        use SocketColumn as C;
        let columns: Vec<C> = if layout.format == Format::Csv {
            vec![
                C::Netid,
                C::State,
                C::Local,
                C::Peer,
                C::Netns,
                C::Inode,
                C::Cookie,
                C::Process,
            ]
        } else {
            let all = [
                (layout.netns, C::Netns),
                (layout.netid, C::Netid),
                (true, C::State),
                (true, C::Local),
                (true, C::Peer),
            ];
            let shown = all.into_iter().filter(|(shown, _)| *shown);
            shown.map(|(_, column)| column).collect()
        };
        let mut headings: Vec<Heading> = columns
            .iter()
            .map(|column| Heading::new(&column.header(), column.align()))
            .collect();
        headings.extend(
            layout
                .annexes
                .iter()
                .map(|annex| Heading::new(annex.header, annex.align)),
        );
        headings.push(Heading::new(&C::Process.header(), C::Process.align()));
        let mut table = Table::new(headings, layout.style, layout.width);
        table.no_header = layout.no_header;
        Self {
            output: Output::new(writer),
            layout,
            columns,
            table,
            scratch: Scratch::default(),
            rows: 0,
        }
    }

    /// Opens the document or writes the header. A table's header waits for the first rows.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(&mut self) -> io::Result<()> {
        match self.layout.format {
            Format::Json => self.output.bytes.extend_from_slice(b"{\"sockets\":["),
            Format::Csv if !self.layout.no_header => {
                csv::push_names(&mut self.output.bytes, &self.columns);
                for annex in self.layout.annexes {
                    self.output.bytes.push(b',');
                    self.output.bytes.extend_from_slice(annex.name.as_bytes());
                }
                self.output.bytes.extend_from_slice(b"\r\n");
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes a socket, and a fact for each annex.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row(&mut self, entry: &Entry<'_>, names: &dyn Names, facts: &[Fact<'_>]) -> io::Result<()> {
        debug_assert_eq!(facts.len(), self.layout.annexes.len());
        match self.layout.format {
            Format::Table => self.push_table_row(entry, names, facts),
            Format::Json => {
                let bytes = &mut self.output.bytes;
                bytes.extend_from_slice(if self.rows == 0 { b"\n" } else { b",\n" });
                self.push_object(entry, names, facts);
            }
            Format::Jsonl => {
                self.push_object(entry, names, facts);
                self.output.bytes.push(b'\n');
            }
            Format::Csv => {
                let mut line = Line::begin(&mut self.output.bytes);
                for &column in &self.columns {
                    csv::push_socket_column(&mut line, column, entry, names);
                }
                for fact in facts {
                    match *fact {
                        Fact::Absent => line.empty(1),
                        Fact::Number(value) | Fact::Seconds(value) | Fact::Ms(value) => {
                            line.number(Some(value));
                        }
                        Fact::Switch(is_on) => line.boolean(Some(is_on)),
                        Fact::Text(text) => line.text(Some(text)),
                    }
                }
                line.end();
            }
        }
        self.rows += 1;
        self.output.write_large()
    }

    /// Closes the document and flushes. JSON ends with the keys that `beside` writes and with what was lost; so does
    /// the last of JSON lines.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>, beside: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Table => self.table.settle(bytes),
            Format::Csv => {}
            Format::Json => {
                bytes.extend_from_slice(b"\n],\n");
                push_end(bytes, summary, beside);
                bytes.extend_from_slice(b"}\n");
            }
            Format::Jsonl => {
                bytes.extend_from_slice(b"{\"summary\":{");
                push_end(bytes, summary, beside);
                bytes.extend_from_slice(b"}}\n");
            }
        }
        self.output.flush()
    }

    fn push_table_row(&mut self, entry: &Entry<'_>, names: &dyn Names, facts: &[Fact<'_>]) {
        cell::push_row(&mut self.table, &self.columns, entry, names, &mut self.scratch);
        for fact in facts {
            let out = self.table.cell();
            match *fact {
                Fact::Absent => {}
                Fact::Number(value) => push_decimal(out, value),
                Fact::Seconds(value) => push_time_us(out, value.saturating_mul(1_000_000)),
                Fact::Ms(value) => push_time_us(out, value.saturating_mul(1000)),
                Fact::Switch(is_on) => out.extend_from_slice(if is_on { b"on" } else { b"off" }),
                Fact::Text(text) => push_clean(out, text.as_bytes()),
            }
            self.table.end_cell(match fact {
                Fact::Switch(false) => Tint::Yellow,
                _ => Tint::None,
            });
        }
        cell::push_owners(self.table.cell(), entry.owners.unwrap_or_default());
        self.table.end_cell(Tint::None);
        self.table.end_row(&mut self.output.bytes);
    }

    fn push_object(&mut self, entry: &Entry<'_>, names: &dyn Names, facts: &[Fact<'_>]) {
        let mut object = Object::begin(&mut self.output.bytes);
        socket_json::push_fields(&mut object, entry, names);
        for (annex, fact) in self.layout.annexes.iter().zip(facts) {
            match *fact {
                Fact::Absent => {}
                Fact::Number(value) | Fact::Seconds(value) | Fact::Ms(value) => {
                    object.number(annex.name, Some(value));
                }
                Fact::Switch(is_on) => object.boolean(annex.name, Some(is_on)),
                Fact::Text(text) => object.text(annex.name, Some(text)),
            }
        }
        object.end();
    }
}

/// Appends the keys with which a document ends.
fn push_end(out: &mut Vec<u8>, summary: &Summary<'_>, beside: impl FnOnce(&mut Object<'_>)) {
    let mut fields = Vec::new();
    beside(&mut Object::begin(&mut fields));
    // Without the brace: these are keys among others.
    if let Some(fields) = fields.get(1..).filter(|fields| !fields.is_empty()) {
        out.extend_from_slice(fields);
        out.push(b',');
    }
    push_summary_fields(out, summary);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, Endpoint, Fd, NoNames, Owner, Pid, Port, Process, Protocol, Socket, State};

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
        let entry = Entry {
            socket: &socket,
            owners: Some(&owners),
        };
        let annex = |name, header| Annex {
            name,
            header,
            align: Align::Right,
        };
        let annexes: &'static [Annex] = Box::leak(Box::new([
            annex("on", "On"),
            annex("time_s", "Time"),
            annex("idle_ms", "Idle"),
            annex("why", "Why"),
            annex("count", "Count"),
        ]));
        let mut out = Vec::new();
        let layout = AnnexedLayout {
            format,
            annexes,
            ..AnnexedLayout::default()
        };
        let mut writer = AnnexedWriter::new(&mut out, layout);
        writer.begin().unwrap();
        let facts = [
            Fact::Switch(false),
            Fact::Seconds(7200),
            Fact::Ms(1500),
            Fact::Text("a\x1b, b"),
            Fact::Absent,
        ];
        writer.row(&entry, &NoNames, &facts).unwrap();
        writer
            .finish(&Summary::default(), |object| object.number("asked", Some(1_u32)))
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_has_annexes_before_owners_and_no_escapes() {
        assert_eq!(
            written(Format::Table),
            "State  Local Address:Port  Peer Address:Port   On  Time  Idle       Why  Count  Process\n\
             ESTAB  10.0.0.1:22         10.0.0.2:50000     off    2h  1.5s  a\\x1b, b      -  =a\\x1b[1m(7,fd=3)\n"
        );
    }

    #[test]
    fn json_has_them_by_name() {
        let text = written(Format::Json);
        assert!(
            text.contains(r#","on":false,"time_s":7200,"idle_ms":1500,"why":"a\u001b, b"}"#),
            "{text}"
        );
        assert!(text.contains("\n],\n\"asked\":1,\"losses\":{"), "{text}");
        let lines = written(Format::Jsonl);
        assert!(
            lines
                .lines()
                .last()
                .unwrap()
                .starts_with("{\"summary\":{\"asked\":1,"),
            "{lines}"
        );
    }

    #[test]
    fn csv_has_them_at_the_end() {
        let text = written(Format::Csv);
        let (header, line) = text.split_once("\r\n").unwrap();
        assert!(
            header.ends_with(",process,on,time_s,idle_ms,why,count"),
            "{header}"
        );
        assert!(line.contains(",\"'=a\\x1b[1m(7,fd=3)\","), "{line}");
        assert!(line.ends_with(",false,7200,1500,\"a\\x1b, b\",\r\n"), "{line}");
    }
}
