//! Tests of `netstat`.

mod behaviour;
mod live;
mod peer;
mod tables;
