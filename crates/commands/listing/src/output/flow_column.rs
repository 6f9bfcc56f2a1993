use sockeye_output::column::{Align, UnknownColumn};
use std::borrow::Cow;

macro_rules! flow_columns {
    ($($(#[$doc:meta])* $variant:ident $name:literal $header:literal $align:ident;)*) => {
        /// A column of a listing of flows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FlowColumn {
            $($(#[$doc])* $variant,)*
        }

        impl FlowColumn {
            /// All columns, in the order of CSV.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name, as `--columns` takes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What stands over it in a table.
            #[must_use]
            pub const fn header(self) -> &'static str {
                match self { $(Self::$variant => $header,)* }
            }

            /// To which side it leans in a table.
            #[must_use]
            pub const fn align(self) -> Align {
                match self { $(Self::$variant => Align::$align,)* }
            }
        }
    };
}

flow_columns! {
    /// Network namespace
    Netns "netns" "Netns" Left;
    /// The user by whom flows are grouped
    User "user" "User" Left;
    /// The process by which flows are grouped
    Process "process" "Process" Left;
    /// Our address; `many` where it differs
    Local "local" "Local Address:Port" Left;
    /// `-->` when we connected, `<--` when the peer did
    Arrow "arrow" "" Left;
    /// The same in a word
    Direction "direction" "Direction" Left;
    /// The peer's address; `many` where it differs
    Peer "peer" "Peer Address:Port" Left;
    /// How many connections
    Connections "connections" "Connections" Right;
    /// How many in each state
    States "states" "States" Left;
    /// Connections of which tcp_info is known
    Measured "measured" "Measured" Right;
    /// Data acknowledged by the peers
    Sent "sent" "Sent" Right;
    /// Data received
    Received "received" "Received" Right;
    /// Median round trip time
    Rtt "rtt" "RTT" Right;
    /// Segments retransmitted
    Retrans "retrans" "Retrans" Right;
    /// Sum of the delivery rates
    DeliveryRate "delivery_rate" "Delivery Sum" Right;
    /// Median of the delivery rates
    DeliveryRateMedian "delivery_rate_median" "Delivery" Right;
    /// Data acknowledged by the peers, a second
    SentRate "sent_rate" "Sent/s" Right;
    /// Data received, a second
    ReceivedRate "received_rate" "Received/s" Right;
    /// Segments retransmitted, a second
    RetransRate "retrans_rate" "Retrans/s" Right;
    /// Connections opened, a second
    OpenedRate "opened_rate" "Opened/s" Right;
    /// Connections closed, a second
    ClosedRate "closed_rate" "Closed/s" Right;
    /// Who holds the connections: name, pid and process group
    Owners "owners" "Process" Left;
}

impl FlowColumn {
    /// The column with this name.
    ///
    /// # Errors
    /// When there is none; the error tells the nearest and all known ones.
    pub fn from_name(name: &str) -> Result<Self, UnknownColumn> {
        let wanted = name.trim().to_ascii_lowercase().replace('-', "_");
        let found = Self::ALL.iter().find(|column| column.name() == wanted);
        found.copied().ok_or_else(|| {
            UnknownColumn::new(
                name.trim(),
                Self::ALL.iter().map(|column| Cow::Borrowed(column.name())),
            )
        })
    }

    /// Columns from names with commas between them; `all` stands for everything.
    ///
    /// # Errors
    /// As [`FlowColumn::from_name`], for the first unknown name.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, UnknownColumn> {
        let mut columns = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "all" => columns.extend(Self::ALL),
                _ => columns.push(Self::from_name(name)?),
            }
        }
        if columns.is_empty() {
            return Self::from_name("").map(|column| vec![column]);
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for column in FlowColumn::ALL {
            assert_eq!(FlowColumn::from_name(column.name()), Ok(*column));
        }
        let error = FlowColumn::parse_list("local,conections").unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("connections"));
        assert!(FlowColumn::parse_list("").is_err());
    }
}
