use super::flow_csv;
use crate::output::flow_column::FlowColumn;
use crate::output::{flow_cell, flow_json};
use sockeye_model::{Flow, GroupBy, Names, Protocol};
use sockeye_output::format::{Format, Style, Summary};
use sockeye_output::json;
use sockeye_output::number::push_decimal;
use sockeye_output::rows::Output;
use sockeye_output::table::{Heading, Table};
use std::io::{self, Write};

/// How flows are to be listed.
#[derive(Debug, Clone)]
pub struct FlowLayout {
    /// In which form.
    pub format: Format,
    /// The columns of a table or of CSV; `None`: those of `group_by` and `details` in a table, all in
    /// CSV. JSON always has everything that is known.
    pub columns: Option<Vec<FlowColumn>>,
    /// By what the flows were folded: decides which columns say something.
    pub group_by: GroupBy,
    /// What a table shows beyond who talks to whom, and how many connections.
    pub details: FlowDetails,
    /// Whose services the ports are.
    pub protocol: Protocol,
    /// Colours of a table.
    pub style: Style,
    /// Columns of the terminal behind a table; `None`: not a terminal, nothing is squeezed or wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of a table or of CSV.
    pub no_header: bool,
    /// Of listings that are repeated, which one this is: JSON and CSV say so.
    pub sample: Option<u64>,
}

impl Default for FlowLayout {
    fn default() -> Self {
        Self {
            format: Format::Table,
            columns: None,
            group_by: GroupBy::Host,
            details: FlowDetails::default(),
            protocol: Protocol::Tcp,
            style: Style::Plain,
            width: None,
            no_header: false,
            sample: None,
        }
    }
}

/// What a table of flows shows beyond who talks to whom, and how many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowDetails {
    /// Namespace, where several are listed.
    pub netns: bool,
    /// Connections in each state.
    pub states: bool,
    /// Who holds them (`-p`).
    pub owners: bool,
    /// Bytes, round trip time, retransmissions, delivery rate (`-i`).
    pub info: bool,
    /// Changes a second (`-w`).
    pub rates: bool,
}

impl FlowLayout {
    /// The columns of its table.
    #[must_use]
    pub fn table_columns(&self) -> Vec<FlowColumn> {
        use FlowColumn as C;
        if let Some(columns) = &self.columns {
            return columns.clone();
        }
        let key: &[C] = match self.group_by {
            GroupBy::Host | GroupBy::Port | GroupBy::Prefix { .. } => &[C::Local, C::Arrow, C::Peer],
            GroupBy::Process => &[C::Process, C::Direction],
            GroupBy::Uid => &[C::User, C::Direction],
            GroupBy::Netns => &[C::Netns, C::Direction],
        };
        let netns = self.details.netns && self.group_by != GroupBy::Netns;
        let owners = self.details.owners && self.group_by != GroupBy::Process;
        let groups: [(bool, &[C]); 7] = [
            (netns, &[C::Netns]),
            (true, key),
            (true, &[C::Connections]),
            (
                self.details.info,
                &[C::Sent, C::Received, C::Rtt, C::Retrans, C::DeliveryRateMedian],
            ),
            (
                self.details.rates,
                &[
                    C::SentRate,
                    C::ReceivedRate,
                    C::RetransRate,
                    C::OpenedRate,
                    C::ClosedRate,
                ],
            ),
            (self.details.states, &[C::States]),
            (owners, &[C::Owners]),
        ];
        let shown = groups.into_iter().filter(|(shown, _)| *shown);
        shown.flat_map(|(_, columns)| columns.iter().copied()).collect()
    }
}

/// Writes a listing of flows: [`begin`](Self::begin), [`row`](Self::row) for each, [`finish`](Self::finish).
///
/// Errors of the writer are handed on as they are; after one the listing should be dropped.
#[derive(Debug)]
pub struct FlowWriter<W> {
    output: Output<W>,
    layout: FlowLayout,
    columns: Vec<FlowColumn>,
    table: Table,
    rows: usize,
}

impl<W: Write> FlowWriter<W> {
    /// A listing into `writer`; nothing is written yet.
    pub fn new(writer: W, layout: FlowLayout) -> Self {
        let columns = match (layout.format, &layout.columns) {
            (Format::Csv, None) => FlowColumn::ALL.to_vec(),
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
            Format::Json => {
                self.output.bytes.push(b'{');
                if let Some(sample) = self.layout.sample {
                    self.output.bytes.extend_from_slice(b"\"sample\":");
                    push_decimal(&mut self.output.bytes, sample);
                    self.output.bytes.push(b',');
                }
                self.output.bytes.extend_from_slice(b"\"flows\":[");
            }
            Format::Csv if !self.layout.no_header => {
                if self.layout.sample.is_some() {
                    self.output.bytes.extend_from_slice(b"sample,");
                }
                flow_csv::push_flow_header(&mut self.output.bytes, &self.columns);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes a flow.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row(&mut self, flow: &Flow, names: &dyn Names) -> io::Result<()> {
        let bytes = &mut self.output.bytes;
        let protocol = self.layout.protocol;
        match self.layout.format {
            Format::Table => {
                for column in &self.columns {
                    let tint = flow_cell::push(self.table.cell(), *column, flow, names, protocol);
                    self.table.end_cell(tint);
                }
                self.table.end_row(bytes);
            }
            Format::Json => {
                bytes.extend_from_slice(if self.rows == 0 { b"\n" } else { b",\n" });
                flow_json::push(bytes, flow, names, &self.layout);
            }
            Format::Jsonl => {
                flow_json::push(bytes, flow, names, &self.layout);
                bytes.push(b'\n');
            }
            Format::Csv => {
                if let Some(sample) = self.layout.sample {
                    push_decimal(bytes, sample);
                    bytes.push(b',');
                }
                flow_csv::push_flow(bytes, &self.columns, flow, names, protocol);
            }
        }
        self.rows += 1;
        self.output.write_large()
    }

    /// Closes the document and flushes. What was lost is told as by [`sockeye_output::SocketWriter::finish`].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(&mut self, summary: &Summary<'_>) -> io::Result<()> {
        let bytes = &mut self.output.bytes;
        match self.layout.format {
            Format::Table => self.table.settle(bytes),
            Format::Json => {
                bytes.extend_from_slice(b"\n],\n");
                json::push_summary_fields(bytes, summary);
                bytes.extend_from_slice(b"}\n");
            }
            Format::Jsonl if summary.is_incomplete() => json::push_summary_line(bytes, summary),
            Format::Jsonl | Format::Csv => {}
        }
        self.output.flush()
    }

    /// The writer, without what was not yet written.
    pub fn into_inner(self) -> W {
        self.output.into_inner()
    }
}
