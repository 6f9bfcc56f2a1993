//! The columns of a listing of namespaces.

use super::Namespaces;
use super::composites::{Age, Holders, Id, Name, Processes};
use sockeye_model::Namespace;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Value};

type NetnsColumn = Column<Namespaces>;

/// All columns, in the order of CSV.
pub(super) static COLUMNS: &[NetnsColumn] = &[
    NetnsColumn::composite(
        "name",
        "Name",
        Left,
        "Its names; without any, its container or first process",
        &Name,
        &["name", "label"],
        &["name", "names", "label"],
    ),
    NetnsColumn::value(
        "container",
        "Container",
        Left,
        "Container in it",
        |namespace, _| Value::text(namespace.container.as_deref().map(str::as_bytes)),
    ),
    composite(
        "nsid",
        "Id",
        "Its id (nsid) in the current namespace",
        &Id,
        &["nsid"],
    )
    .aliases(&["id"]),
    number("netns_inode", "Inode", "Its inode number", |namespace, _| {
        Value::Number(namespace.inode.0.into())
    })
    .aliases(&["inode"]),
    composite(
        "processes",
        "Pids",
        "Number of processes in it",
        &Processes,
        &["processes"],
    )
    .aliases(&["pids"]),
    number("threads", "Threads", "Number of threads in it", |namespace, _| {
        Value::number(namespace.threads)
    }),
    number("sockets", "Sockets", "Number of sockets in it", |namespace, _| {
        Value::number(namespace.sockets)
    }),
    number(
        "interfaces",
        "Ifaces",
        "Number of network interfaces in it",
        |namespace, _| Value::number(namespace.interfaces),
    ),
    composite("age_s", "Age", "Its age", &Age, &["age_s", "age_from"]),
    NetnsColumn::value(
        "own",
        "Own",
        Left,
        "Whether it is the current one",
        |namespace, _| Value::Bool(namespace.is_own),
    ),
    NetnsColumn::value(
        "leaked",
        "Leaked",
        Left,
        "Whether no process or thread is in it",
        |namespace: &&Namespace, _| Value::bool(namespace.is_leaked()),
    ),
    NetnsColumn::composite(
        "holders",
        "Holders",
        Left,
        "What holds it: names, mounts, descriptors, threads, sockets",
        &Holders,
        &["holders"],
        &["holders"],
    ),
];

/// Creates a column of numbers.
const fn number(
    name: &'static str,
    heading: &'static str,
    about: &'static str,
    value: for<'r, 'a> fn(&'r &'a Namespace, u8) -> Value<'r>,
) -> NetnsColumn {
    NetnsColumn::value(name, heading, Right, about, value)
}

/// Creates a right-aligned column of a value with parts, whose CSV and JSON fields are the same.
const fn composite(
    name: &'static str,
    heading: &'static str,
    about: &'static str,
    value: &'static dyn Composite<Namespaces>,
    fields: &'static [&'static str],
) -> NetnsColumn {
    NetnsColumn::composite(name, heading, Right, about, value, fields, fields)
}
