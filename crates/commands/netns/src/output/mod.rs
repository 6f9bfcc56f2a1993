//! Listings of network namespaces, notes on them, and names in messages.

mod columns;
mod composites;
pub(crate) mod json_rows;
pub(crate) mod names;
pub(crate) mod notes;

use sockeye_model::Namespace;
use sockeye_output::JsonObject;
use sockeye_output::format::Format;
use sockeye_output::listing::{Column, Layout, Record, SortKey, SortValue, all_columns, named_columns};

/// Network namespaces as records: `docs/schema/namespaces.schema.json`, `$defs/namespace`.
///
/// ```
/// use sockeye_model::{Namespace, NetnsInode, NetnsName};
/// use sockeye_netns::output::layout;
/// use sockeye_output::{Format, Summary};
/// use sockeye_output::listing::ListingWriter;
///
/// let mut namespace = Namespace::new(NetnsInode(4_026_532_177));
/// namespace.names.push(NetnsName::new("web1").unwrap());
/// namespace.processes = Some(2);
///
/// let mut out = Vec::new();
/// let mut listing = ListingWriter::new(&mut out, layout(Format::Table, None, false));
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
    const ROW: &'static str = "namespace";

    fn columns() -> &'static [Column<Self>] {
        columns::COLUMNS
    }
}

/// Sorts namespaces by a column. The sort is stable; absent values come last.
pub fn sort(namespaces: &mut Vec<Namespace>, key: SortKey<Namespaces>) {
    let values: Vec<Option<SortValue>> = namespaces
        .iter()
        .map(|namespace| key.column.sort_value(&namespace))
        .collect();
    let mut sorted: Vec<Option<Namespace>> = std::mem::take(namespaces).into_iter().map(Some).collect();
    namespaces.extend(
        key.order(&values)
            .into_iter()
            .filter_map(|index| sorted[index].take()),
    );
}

/// Gaps of a listing of namespaces, beyond the losses that all listings have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetnsGaps {
    /// Number of names whose namespace is gone.
    pub stale_names: u64,
    /// Number of mount namespaces that were not searched for mounts of network namespaces.
    pub unread_mount_namespaces: u64,
    /// Whether `/proc` hides the processes of other users.
    pub processes_hidden: bool,
    /// Whether namespaces that only sockets hold were searched.
    pub sockets_seen: bool,
}

/// Returns the layout of a listing with these columns; `None`: the default ones in a table, with what holds the namespaces
/// if `shows_holders`, and all that a row fills in CSV. JSON always has all known values.
#[must_use]
pub fn layout(
    format: Format,
    columns: Option<Vec<&'static Column<Namespaces>>>,
    shows_holders: bool,
) -> Layout<Namespaces> {
    let leaves_out_empty = columns.is_none();
    let columns = match columns {
        Some(columns) => columns,
        None if format == Format::Csv => all_columns().collect(),
        None => named_columns(if shows_holders {
            &TABLE
        } else {
            &TABLE[..TABLE.len() - 1]
        }),
    };
    // An absent count or age in the last column is marked; no holders are an empty cell.
    let marks_last = columns.last().is_some_and(|column| column.name != "holders");
    let mut layout = Layout::new(format, columns);
    layout.marks_last = marks_last;
    layout.leaves_out_empty = leaves_out_empty;
    layout
}

/// Default columns of a table.
const TABLE: [&str; 9] = [
    "name",
    "nsid",
    "netns_inode",
    "processes",
    "threads",
    "sockets",
    "interfaces",
    "age_s",
    "holders",
];

impl NetnsGaps {
    /// Appends the gaps as JSON fields.
    pub fn push_fields(&self, object: &mut JsonObject<'_>) {
        object.number("stale_names", Some(self.stale_names));
        object.number("unread_mount_namespaces", Some(self.unread_mount_namespaces));
        object.boolean("processes_hidden", Some(self.processes_hidden));
        object.boolean("sockets_seen", Some(self.sockets_seen));
    }
}

/// Returns the first name, or the label of a namespace without one.
fn first_name(namespace: &Namespace) -> Option<&[u8]> {
    let name = namespace
        .names
        .first()
        .map(|name| name.as_os_str().as_encoded_bytes());
    name.or_else(|| namespace.label.as_ref().map(|label| label.as_bytes()))
}

/// Appends a name and a line feed. For a terminal, control characters are escaped.
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
        assert_eq!(order("netns_inode"), [1, 2, 3, 4]);
        assert_eq!(order("-inode"), [4, 3, 2, 1]);
        assert_eq!(order("-sockets"), [3, 1, 4, 2]);
        assert_eq!(order("sockets"), [1, 3, 4, 2]);
        assert_eq!(order("name"), [4, 2, 1, 3]);
        assert_eq!(order("-name"), [2, 4, 1, 3]);
        assert!(SortKey::<Namespaces>::parse("size").is_err());
    }
}
