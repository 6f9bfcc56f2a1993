//! Layout of a listing of flows: its columns.

use super::Flows;
use sockeye_model::GroupBy;
use sockeye_output::format::{Format, Style};
use sockeye_output::listing::{Column, Layout, all_columns, named_columns};

/// Layout options of a listing of flows.
#[derive(Debug, Clone)]
pub struct FlowLayout {
    /// Output format.
    pub format: Format,
    /// Columns of a table or of CSV; `None`: those of `group_by` and `details` in a table, all in CSV. JSON always has
    /// all known values.
    pub columns: Option<Vec<&'static Column<Flows>>>,
    /// Key by which the flows were folded, which decides the default columns.
    pub group_by: GroupBy,
    /// Values that a table shows in addition to the ends and the number of connections.
    pub details: FlowDetails,
    /// Colours of a table.
    pub style: Style,
    /// Width of the terminal, in characters; `None`: not a terminal, lines are neither shortened nor wrapped.
    pub width: Option<usize>,
    /// Whether to leave out the header line of a table or of CSV.
    pub no_header: bool,
    /// Number of the sample, from 1, for JSON and CSV; `None`: the listing is not repeated.
    pub sample: Option<u64>,
}

impl Default for FlowLayout {
    fn default() -> Self {
        Self {
            format: Format::Table,
            columns: None,
            group_by: GroupBy::Host,
            details: FlowDetails::default(),
            style: Style::Plain,
            width: None,
            no_header: false,
            sample: None,
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
            (None, Format::Csv) => all_columns().collect(),
            (None, _) => self.table_columns(),
        };
        let mut layout = Layout::new(self.format, columns);
        layout.style = self.style;
        layout.width = self.width;
        layout.no_header = self.no_header;
        layout.sample = self.sample;
        layout
    }

    fn table_columns(&self) -> Vec<&'static Column<Flows>> {
        let key: &[&str] = match self.group_by {
            GroupBy::Host | GroupBy::Port | GroupBy::Prefix { .. } => &["local", "arrow", "peer"],
            GroupBy::Process => &["process", "direction"],
            GroupBy::Uid => &["user", "direction"],
            GroupBy::Netns => &["netns", "direction"],
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
