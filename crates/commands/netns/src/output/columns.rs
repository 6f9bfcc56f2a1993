//! The table of columns: the one place that defines what a namespace's column is.

use super::Namespaces;
use super::composites::{Age, Holders, Id, Name, Processes};
use sockeye_model::Namespace;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Value};

type NetnsColumn = Column<Namespaces>;

/// Every column, in the order of CSV.
pub(super) static COLUMNS: &[NetnsColumn] = &[
    NetnsColumn::composite(
        "name",
        "Name",
        Left,
        "Its names; without any, its container or first process",
        &Name,
        &["name", "called"],
        &["name", "names", "called"],
    ),
    NetnsColumn::value(
        "container",
        "Container",
        Left,
        "Container that lives in it",
        |namespace, _| Value::text(namespace.container.as_deref().map(str::as_bytes)),
    ),
    NetnsColumn::composite(
        "id",
        "Id",
        Right,
        "Its id in our own namespace",
        &Id,
        &["nsid"],
        &["nsid"],
    )
    .aliases(&["nsid"]),
    NetnsColumn::value("inode", "Inode", Right, "Its inode number", |namespace, _| {
        Value::Number(namespace.inode.0.into())
    }),
    NetnsColumn::composite(
        "pids",
        "Pids",
        Right,
        "Number of processes that live in it",
        &Processes,
        &["processes"],
        &["processes"],
    )
    .aliases(&["processes"]),
    NetnsColumn::value(
        "threads",
        "Threads",
        Right,
        "Number of threads that live in it",
        |namespace, _| Value::number(namespace.threads),
    ),
    NetnsColumn::value(
        "sockets",
        "Sockets",
        Right,
        "Number of sockets in it",
        |namespace, _| Value::number(namespace.sockets),
    ),
    NetnsColumn::value(
        "interfaces",
        "Ifaces",
        Right,
        "Number of network interfaces in it",
        |namespace, _| Value::number(namespace.interfaces),
    ),
    NetnsColumn::composite(
        "age",
        "Age",
        Right,
        "Its age",
        &Age,
        &["age_s", "age_from"],
        &["age_s", "age_from"],
    ),
    NetnsColumn::value("own", "Own", Left, "Whether it is our own", |namespace, _| {
        Value::Bool(namespace.is_own)
    }),
    NetnsColumn::value(
        "leaked",
        "Leaked",
        Left,
        "Whether no process lives in it",
        |namespace: &&Namespace, _| Value::bool(namespace.is_leaked()),
    ),
    NetnsColumn::composite(
        "kept_by",
        "Kept by",
        Left,
        "What holds it open",
        &Holders,
        &["kept_by"],
        &["keepers"],
    ),
];
