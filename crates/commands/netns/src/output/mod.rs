//! Listings of network namespaces.

mod columns;
mod composites;

use sockeye_model::Namespace;
use sockeye_output::JsonObject;
use sockeye_output::format::{Format, Style};
use sockeye_output::listing::{Column, Layout, Record, SortKey, SortValue, named_columns};

/// The kind of record that is a network namespace: `docs/schema/namespaces.schema.json`, `$defs/namespace`.
///
/// ```
/// use sockeye_model::{Namespace, NetnsInode, NetnsName};
/// use sockeye_netns::output::NetnsLayout;
/// use sockeye_output::Summary;
/// use sockeye_output::listing::ListingWriter;
///
/// let mut namespace = Namespace::new(NetnsInode(4_026_532_177));
/// namespace.names.push(NetnsName::new("web1").unwrap());
/// namespace.processes = Some(2);
///
/// let mut out = Vec::new();
/// let mut listing = ListingWriter::new(&mut out, NetnsLayout::default().listing());
/// listing.begin()?;
/// listing.row(&&namespace)?;
/// listing.finish(&Summary::default())?;
/// assert_eq!(
///     String::from_utf8_lossy(&out),
///     "Name  Id       Inode  Pids  Threads  Sockets  Ifaces  Age\n\
///      web1   -  4026532177     2        -        -       -    -\n"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Namespaces;

impl Record for Namespaces {
    type Row<'a> = &'a Namespace;

    const KEY: &'static str = "namespaces";

    fn columns() -> &'static [Column<Self>] {
        columns::COLUMNS
    }
}

/// Sorts namespaces; equal ones keep their order.
pub fn sort(namespaces: &mut Vec<Namespace>, key: SortKey<Namespaces>) {
    let values: Vec<Option<SortValue>> = namespaces
        .iter()
        .map(|namespace| key.column.sort_value(&namespace))
        .collect();
    let mut sorted: Vec<Option<Namespace>> = std::mem::take(namespaces).into_iter().map(Some).collect();
    namespaces.extend(
        key.order(&values)
            .into_iter()
            .filter_map(|place| sorted[place].take()),
    );
}

/// How namespaces are to be listed.
#[derive(Debug, Clone, Default)]
pub struct NetnsLayout {
    /// In which form.
    pub format: Format,
    /// The columns of a table or of CSV; `None`: the usual ones in a table, all in CSV. JSON always has everything that is
    /// known.
    pub columns: Option<Vec<&'static Column<Namespaces>>>,
    /// Whether a table shows what keeps them.
    pub holders: bool,
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
    /// Returns the layout of the listing.
    #[must_use]
    pub fn listing(self) -> Layout<Namespaces> {
        let columns = match (self.columns, self.format) {
            (Some(columns), _) => columns,
            (None, Format::Csv) => Namespaces::columns().iter().collect(),
            (None, _) => {
                let mut columns = named_columns(&[
                    "name",
                    "id",
                    "inode",
                    "pids",
                    "threads",
                    "sockets",
                    "interfaces",
                    "age",
                ]);
                if self.holders {
                    columns.extend(named_columns(&["kept_by"]));
                }
                columns
            }
        };
        // No holder is nothing to show; an unknown count or age is.
        let marks_last = columns.last().is_some_and(|column| column.name != "kept_by");
        let mut layout = Layout::new(self.format, columns);
        layout.marks_last = marks_last;
        layout.style = self.style;
        layout.width = self.width;
        layout.no_header = self.no_header;
        layout
    }
}

impl NetnsGaps {
    /// Whether there is something that the reader of the rows alone would not know.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        self.remains > 0 || self.unread_mount_namespaces > 0 || self.processes_hidden
    }

    /// Appends the fields of JSON that say so.
    pub fn push_fields(&self, object: &mut JsonObject<'_>) {
        object.number("remains", Some(self.remains));
        object.number("unread_mount_namespaces", Some(self.unread_mount_namespaces));
        object.boolean("processes_hidden", Some(self.processes_hidden));
        object.boolean("sockets_seen", Some(self.sockets_seen));
    }
}

/// The name that comes first, or what it is called without one.
fn first_name(namespace: &Namespace) -> Option<&[u8]> {
    let name = namespace
        .names
        .first()
        .map(|name| name.as_os_str().as_encoded_bytes());
    name.or_else(|| namespace.label.as_ref().map(|label| label.as_bytes()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{NetnsInode, NetnsName};
    use sockeye_output::listing::{find_column, parse_columns};

    #[test]
    fn columns_are_found_by_name_and_by_heading() {
        for column in Namespaces::columns() {
            assert_eq!(find_column(column.name), Ok(column));
            assert_eq!(find_column(column.heading), Ok(column));
        }
        let error = parse_columns::<Namespaces>("name,socket").unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("sockets"));
        assert!(parse_columns::<Namespaces>("").is_err());
    }

    #[test]
    fn absent_values_come_last_in_both_directions() {
        let mut all: Vec<Namespace> = (1..=4).map(|inode| Namespace::new(NetnsInode(inode))).collect();
        all[0].sockets = Some(5);
        all[2].sockets = Some(50);
        all[1].names = vec![NetnsName::new("web10").unwrap()];
        all[3].names = vec![NetnsName::new("web2").unwrap()];
        let mut order = |key: &str| {
            sort(&mut all, SortKey::parse(key).unwrap());
            all.iter().map(|namespace| namespace.inode.0).collect::<Vec<_>>()
        };
        assert_eq!(order("inode"), [1, 2, 3, 4]);
        assert_eq!(order("-inode"), [4, 3, 2, 1]);
        assert_eq!(order("-sockets"), [3, 1, 4, 2]);
        assert_eq!(order("sockets"), [1, 3, 4, 2]);
        assert_eq!(order("name"), [4, 2, 1, 3]);
        assert_eq!(order("-name"), [2, 4, 1, 3]);
        assert!(SortKey::<Namespaces>::parse("size").is_err());
    }
}
