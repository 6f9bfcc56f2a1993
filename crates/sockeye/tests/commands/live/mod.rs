//! `sockeye events` and `sockeye drops` on the live kernel.

mod by_diag;
mod drops;
mod drops_counters;
mod drops_devices;
mod drops_explained;
mod drops_filter;
mod drops_firewall;
mod drops_namespaces;
mod drops_report;
mod drops_rules;
mod drops_short;
mod event_counters;
mod event_ends;
mod event_filter;
mod event_kinds;
mod event_latency;
mod event_routed;
mod event_unsent;
mod events;
mod summaries;
