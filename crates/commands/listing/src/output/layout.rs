//! Which columns a listing of flows shows.

use super::Flows;
use sockeye_model::GroupBy;
use sockeye_output::format::{Format, Style};
use sockeye_output::listing::{Column, Layout, Record, named_columns};

/// How flows are to be listed.
#[derive(Debug, Clone)]
pub struct FlowLayout {
    /// In which form.
    pub format: Format,
    /// The columns of a table or of CSV; `None`: those of `group_by` and `details` in a table, all in
    /// CSV. JSON always has everything that is known.
    pub columns: Option<Vec<&'static Column<Flows>>>,
    /// By what the flows were folded: decides which columns say something.
    pub group_by: GroupBy,
    /// What a table shows beyond who talks to whom, and how many connections.
    pub details: FlowDetails,
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
    /// Returns the layout of the listing.
    #[must_use]
    pub fn listing(self) -> Layout<Flows> {
        let columns = match (&self.columns, self.format) {
            (Some(columns), _) => columns.clone(),
            (None, Format::Csv) => Flows::columns().iter().collect(),
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
                &["sent", "received", "rtt", "retrans", "delivery_rate_median"],
            ),
            (
                self.details.rates,
                &[
                    "sent_rate",
                    "received_rate",
                    "retrans_rate",
                    "opened_rate",
                    "closed_rate",
                ],
            ),
            (self.details.states, &["states"]),
            (owners, &["owners"]),
        ];
        let shown = groups.into_iter().filter(|(shown, _)| *shown);
        shown.flat_map(|(_, columns)| named_columns(columns)).collect()
    }
}
