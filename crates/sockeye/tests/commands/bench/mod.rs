//! Tests of `bench`.

mod file;
mod memory;
mod rr;
mod sources;
mod stream;
mod tun;
mod tunnel_story;
