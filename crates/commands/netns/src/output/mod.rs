//! Listings of network namespaces.

mod cell;
mod column;
mod json;

pub use column::{NetnsColumn, NetnsSortKey};

use sockeye_model::Namespace;
use sockeye_output::csv::Line;
use sockeye_output::format::{Format, Style, Summary};
use sockeye_output::json::{Object, push_summary_fields};
use sockeye_output::rows::Output;
use sockeye_output::table::{Heading, Table};
use std::io::{self, Write};

/// How namespaces are to be listed.
#[derive(Debug, Clone, Default)]
pub struct NetnsLayout {
    /// In which form.
    pub format: Format,
    /// The columns of a table or of CSV; `None`: the usual ones in a table, all in CSV. JSON always has everything that is
    /// known.
    pub columns: Option<Vec<NetnsColumn>>,
    /// Whether a table shows what keeps them.
    pub keepers: bool,
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal behind a table; `None`: not a terminal, nothing is squeezed or wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
}

/// What is known only after the last namespace, besides what all listings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetnsGaps {
    /// Names whose namespace is gone.
    pub remains: u64,
    /// Mount namespaces in which nobody looked for mounts of network namespaces.
    pub unread_mount_namespaces: u64,
    /// `/proc` hides the processes of others.
    pub processes_hidden: bool,
    /// Whether namespaces that only sockets keep would have been seen.
    pub sockets_seen: bool,
}

impl NetnsLayout {
    /// The columns of its table.
    #[must_use]
    pub fn table_columns(&self) -> Vec<NetnsColumn> {
        use NetnsColumn as C;
        if let Some(columns) = &self.columns {
            return columns.clone();
        }
        let mut columns = vec![
            C::Name,
            C::Id,
            C::Inode,
            C::Pids,
            C::Threads,
            C::Sockets,
            C::Interfaces,
            C::Age,
        ];
        if self.keepers {
            columns.push(C::KeptBy);
        }
        columns
    }
}

/// Writes a listing of namespaces: [`begin`](Self::begin), [`row`](Self::row) for each, [`finish`](Self::finish).
///
/// ```
/// use sockeye_model::{Namespace, NetnsInode, NetnsName};
/// use sockeye_netns::output::{NetnsGaps, NetnsLayout, NetnsWriter};
/// use sockeye_output::Summary;
///
/// let mut namespace = Namespace::new(NetnsInode(4_026_532_177));
/// namespace.names.push(NetnsName::new("web1").unwrap());
/// namespace.processes = Some(2);
///
/// let mut out = Vec::new();
/// let mut listing = NetnsWriter::new(&mut out, NetnsLayout::default());
/// listing.begin()?;
/// listing.row(&namespace)?;
/// listing.finish(&Summary::default(), &NetnsGaps::default())?;
/// assert_eq!(
///     String::from_utf8_lossy(&out),
///     "Name  Id       Inode  Pids  Threads  Sockets  Ifaces  Age\n\
///      web1   -  4026532177     2        -        -       -    -\n"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct NetnsWriter<W> {
    output: Output<W>,
    layout: NetnsLayout,
    columns: Vec<NetnsColumn>,
    table: Table,
    rows: usize,
}

impl<W: Write> NetnsWriter<W> {
    /// A listing into `writer`; nothing is written yet.
    pub fn new(writer: W, layout: NetnsLayout) -> Self {
        let columns = match (layout.format, &layout.columns) {
            (Format::Csv, None) => NetnsColumn::ALL.to_vec(),
            _ => layout.table_columns(),
        };
        let headings = columns
            .iter()
            .map(|column| Heading::new(column.header(), column.align()));
        let mut table = Table::new(headings.collect(), layout.style, layout.width);
        table.no_header = layout.no_header;
        Self {
            output: Output::new(writer),
            layout,
            columns,
            table,
            rows: 0,
        }
    }

    /// Opens the document or writes the header. A table's header waits for the first rows.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(&mut self) -> io::Result<()> {
        match self.layout.format {
            Format::Json => self.output.bytes.extend_from_slice(b"{\"namespaces\":["),
            Format::Csv if !self.layout.no_header => {
                let fields = self.columns.iter().flat_map(|column| csv_fields(*column));
                let names: Vec<&str> = fields.copied().collect();
                self.output.bytes.extend_from_slice(names.join(",").as_bytes());
                self.output.bytes.extend_from_slice(b"\r\n");
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes a namespace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row(&mut self, namespace: &Namespace) -> io::Result<()> {
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Table => {
                for column in &self.columns {
                    let cell = self.table.cell();
                    let start = cell.len();
                    let tint = cell::push(cell, *column, namespace);
                    // Also in the last column, which tables leave empty.
                    if cell.len() == start && *column != NetnsColumn::KeptBy {
                        cell.push(b'-');
                    }
                    self.table.end_cell(tint);
                }
                self.table.end_row(bytes);
            }
            Format::Json => {
                bytes.extend_from_slice(if self.rows == 0 { b"\n" } else { b",\n" });
                json::push(bytes, namespace);
            }
            Format::Jsonl => {
                json::push(bytes, namespace);
                bytes.push(b'\n');
            }
            Format::Csv => push_csv(bytes, &self.columns, namespace),
        }
        self.rows += 1;
        self.output.write_large()
    }

    /// Closes the document and flushes. JSON ends with what was lost; of JSON lines the last one does, if anything was.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>, gaps: &NetnsGaps) -> io::Result<()> {
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Table => self.table.settle(bytes),
            Format::Json => {
                bytes.extend_from_slice(b"\n],\n");
                push_end(bytes, summary, gaps);
                bytes.extend_from_slice(b"}\n");
            }
            Format::Jsonl if summary.is_incomplete() || gaps.is_incomplete() => {
                bytes.extend_from_slice(b"{\"summary\":{");
                push_end(bytes, summary, gaps);
                bytes.extend_from_slice(b"}}\n");
            }
            Format::Jsonl | Format::Csv => {}
        }
        self.output.flush()
    }
}

impl NetnsGaps {
    /// Whether there is something that the reader of the rows alone would not know.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        self.remains > 0 || self.unread_mount_namespaces > 0 || self.processes_hidden
    }
}

/// Appends the keys with which a document ends.
fn push_end(out: &mut Vec<u8>, summary: &Summary<'_>, gaps: &NetnsGaps) {
    let mut gaps_fields = Vec::new();
    let mut object = Object::begin(&mut gaps_fields);
    object.number("remains", Some(gaps.remains));
    object.number("unread_mount_namespaces", Some(gaps.unread_mount_namespaces));
    object.boolean("processes_hidden", Some(gaps.processes_hidden));
    object.boolean("sockets_seen", Some(gaps.sockets_seen));
    // Without the brace: these are keys among others.
    out.extend_from_slice(gaps_fields.get(1..).unwrap_or_default());
    out.push(b',');
    push_summary_fields(out, summary);
}

/// The name that comes first, or what it is called without one.
fn first_name(namespace: &Namespace) -> Option<&[u8]> {
    let name = namespace
        .names
        .first()
        .map(|name| name.as_os_str().as_encoded_bytes());
    name.or_else(|| namespace.called.as_ref().map(|called| called.as_bytes()))
}

/// Writes a name on a line of its own: as it is, or harmless for a terminal.
pub fn push_name_line(out: &mut Vec<u8>, name: &[u8], is_terminal: bool) {
    if is_terminal {
        sockeye_output::text::push_clean(out, name);
    } else {
        out.extend_from_slice(name);
    }
    out.push(b'\n');
}

/// Names of the fields of a column.
const fn csv_fields(column: NetnsColumn) -> &'static [&'static str] {
    use NetnsColumn as C;
    match column {
        C::Name => &["name", "called"],
        C::Container => &["container"],
        C::Id => &["nsid"],
        C::Inode => &["inode"],
        C::Pids => &["processes"],
        C::Threads => &["threads"],
        C::Sockets => &["sockets"],
        C::Interfaces => &["interfaces"],
        C::Age => &["age_s", "age_from"],
        C::Own => &["own"],
        C::Leaked => &["leaked"],
        C::KeptBy => &["kept_by"],
    }
}

fn push_csv(out: &mut Vec<u8>, columns: &[NetnsColumn], namespace: &Namespace) {
    use NetnsColumn as C;
    let mut line = Line::begin(out);
    for &column in columns {
        match column {
            C::Name => {
                line.outside(|out| {
                    for (nth, name) in namespace.names.iter().enumerate() {
                        if nth > 0 {
                            out.push(b',');
                        }
                        sockeye_output::text::push_clean(out, name.as_os_str().as_encoded_bytes());
                    }
                });
                line.text(namespace.called.as_deref());
            }
            C::Container => line.text(namespace.container.as_deref()),
            C::Id => line.number(namespace.id.and_then(|id| u64::try_from(id).ok())),
            C::Inode => line.number(Some(namespace.inode.0)),
            C::Pids => line.number(namespace.processes),
            C::Threads => line.number(namespace.threads),
            C::Sockets => line.number(namespace.sockets),
            C::Interfaces => line.number(namespace.interfaces),
            C::Age => {
                line.number(namespace.age.map(|age| age.seconds));
                line.word(namespace.age.map_or("", |age| age.from.name()));
            }
            C::Own => line.boolean(Some(namespace.is_own)),
            C::Leaked => line.boolean(namespace.is_leaked()),
            C::KeptBy => line.outside(|out| cell::push_keepers(out, namespace)),
        }
    }
    line.end();
}
