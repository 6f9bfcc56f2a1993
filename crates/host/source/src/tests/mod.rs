//! Tests on the live kernel, compared with `ss`, tshark and `/proc`.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod capture_files;
mod capture_tshark;
mod cookies;
mod names;
mod owners;
mod owners_bpf;
mod quiet;
mod tcp_info;
mod vitals;
mod walk_engine;
