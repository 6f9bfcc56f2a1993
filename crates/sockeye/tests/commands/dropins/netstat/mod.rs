//! Tests of `netstat`.

mod live;
mod manners;
mod peer;
mod tables;
