//! Tests of `sockets` and `flows`: every source, compared with each other and with `ss`.

mod big_dump;
mod filters;
mod flows;
mod ladder;
mod namespaces;
mod sockets;
mod walk;
mod walk_churn;
mod walk_udp;
mod walked;
