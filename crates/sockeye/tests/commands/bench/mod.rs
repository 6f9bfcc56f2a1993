//! Tests of `bench`.

mod file;
mod hostile_client;
mod hostile_datagrams;
mod hostile_load;
mod hostile_secret;
mod hostile_server;
mod hostile_text;
mod hostile_trickle;
mod hostile_work;
mod memory;
mod rr;
mod sources;
mod stream;
mod tun;
mod tunnel_story;
