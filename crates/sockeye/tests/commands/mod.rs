//! What each command does on the live kernel: a module per command, with what its tests share.

mod actions;
mod bench;
mod check;
mod config;
mod demo;
mod dropins;
mod explain;
mod export;
mod fleet;
mod history;
mod iperf3;
mod listing;
mod live;
mod netns;
mod packets;
mod path;
mod prof;
mod serve;
mod top;
