//! Tests of the language as a whole: properties, the running kernel, `ss`, tcpdump, the fuzz corpus.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod bounds;
mod corpus;
mod generate;
mod kernel;
mod language;
mod live;
mod pcap;
mod properties;
mod ss_dialect;
