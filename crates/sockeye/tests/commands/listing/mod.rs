//! Tests of `sockets` and `flows`: every source, compared with each other and with `ss`.

mod between;
mod big_dump;
mod bpf_walk;
mod ended_servers;
mod filters;
mod flows;
mod ladder;
mod namespaces;
mod sockets;
mod walk;
mod walk_churn;
mod walk_udp;
mod workloads;
