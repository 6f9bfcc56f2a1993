//! Layout of a listing of flows: its columns.

use super::Flows;
use crate::Envelope;
use crate::format::{Format, Style};
use crate::listing::{Column, Layout, all_columns, named_columns};
use sockeye_model::{GroupBy, WorkloadKind};

/// Layout options of a listing of flows.
#[derive(Debug, Clone)]
pub struct FlowLayout {
    /// Output format.
    pub format: Format,
    /// Columns of a table or of CSV; `None`: those of `group_by` and `details` in a table, all that a row fills in CSV. CSV
    /// of repeated listings, which has one header for all, has those of the table. JSON always has all known values.
    pub columns: Option<Vec<&'static Column<Flows>>>,
    /// Key by which the flows were folded, which decides the default columns.
    pub group_by: GroupBy,
    /// Values that a table shows in addition to the ends and the number of connections.
    pub details: FlowDetails,
    /// Whether a table is for a live screen, in which a row is one line.
    pub live: bool,
    /// Colours of a table.
    pub style: Style,
    /// Width of the terminal, in characters; `None`: not a terminal, lines are neither shortened nor wrapped.
    pub width: Option<usize>,
    /// Whether to leave out the header line of a table or of CSV.
    pub no_header: bool,
    /// Number of the sample, from 1, for JSON and CSV; `None`: the listing is not repeated.
    pub sample: Option<u64>,
    /// Time of the sample and origin, for JSON and CSV.
    pub envelope: Envelope,
}

impl Default for FlowLayout {
    fn default() -> Self {
        Self {
            format: Format::Table,
            columns: None,
            group_by: GroupBy::Host,
            details: FlowDetails::default(),
            live: false,
            style: Style::Plain,
            width: None,
            no_header: false,
            sample: None,
            envelope: Envelope::default(),
        }
    }
}

/// Values that a table of flows shows in addition to the ends and the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowDetails {
    /// Namespace, where several are listed.
    pub netns: bool,
    /// Connections in each state.
    pub states: bool,
    /// Owner processes (`-p`).
    pub owners: bool,
    /// Bytes, round trip time, retransmissions, delivery rate (`-i`).
    pub info: bool,
    /// Changes per second (`-w`).
    pub rates: bool,
}

impl FlowLayout {
    /// Returns the layout of the listing.
    #[must_use]
    pub fn listing(self) -> Layout<Flows> {
        let columns = match (&self.columns, self.format) {
            (Some(columns), _) => columns.clone(),
            (None, Format::Csv) if self.sample.is_some() => self.repeated_csv_columns(),
            (None, Format::Csv) => all_columns().collect(),
            (None, _) => self.table_columns(),
        };
        let mut layout = Layout::new(self.format, columns);
        layout.live = self.live;
        layout.keeps_columns = self.columns.is_some();
        layout.style = self.style;
        layout.width = self.width;
        layout.no_header = self.no_header;
        layout.sample = self.sample;
        layout.envelope = self.envelope;
        // Later samples may fill what the first, with the header, does not.
        layout.leaves_out_empty = self.columns.is_none() && self.sample.is_none();
        layout
    }

    /// Returns the columns of the table with the same flags, with states and rates.
    fn repeated_csv_columns(&self) -> Vec<&'static Column<Flows>> {
        let mut layout = self.clone();
        (layout.details.states, layout.details.rates) = (true, true);
        let shown = layout.table_columns();
        // The arrow of a table has no field.
        let has_arrow = shown.iter().any(|column| column.name == "arrow");
        let direction = named_columns(&["direction"]).into_iter().filter(|_| has_arrow);
        shown.into_iter().chain(direction).collect()
    }

    fn table_columns(&self) -> Vec<&'static Column<Flows>> {
        let key: &[&str] = match self.group_by {
            GroupBy::Host | GroupBy::Port | GroupBy::Prefix { .. } => &["local", "arrow", "peer"],
            GroupBy::Process => &["process", "direction"],
            GroupBy::Uid => &["user", "direction"],
            GroupBy::Netns => &["netns", "direction"],
            GroupBy::Workload(WorkloadKind::Container) => &["container", "direction"],
            GroupBy::Workload(WorkloadKind::Unit) => &["unit", "direction"],
            GroupBy::Workload(WorkloadKind::Cgroup) => &["cgroup", "direction"],
            GroupBy::Workload(WorkloadKind::Exe) => &["exe", "direction"],
        };
        let netns = self.details.netns && self.group_by != GroupBy::Netns;
        let owners = self.details.owners && self.group_by != GroupBy::Process;
        let groups: [(bool, &[&str]); 7] = [
            (netns, &["netns"]),
            (true, key),
            (true, &["connections"]),
            (
                self.details.info,
                &[
                    "bytes_acked",
                    "bytes_received",
                    "rtt_us_median",
                    "total_retrans_segs",
                    "delivery_rate_bytes_per_s_median",
                ],
            ),
            (
                self.details.rates,
                &[
                    "sent_bytes_per_s",
                    "received_bytes_per_s",
                    "retrans_segs_per_s",
                    "opened_per_s",
                    "closed_per_s",
                ],
            ),
            (self.details.states, &["states"]),
            (owners, &["owners"]),
        ];
        let shown = groups.into_iter().filter(|(shown, _)| *shown);
        shown.flat_map(|(_, columns)| named_columns(columns)).collect()
    }
}
