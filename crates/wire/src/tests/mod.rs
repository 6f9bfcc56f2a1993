//! Tests that need a machine: the running kernel's BTF.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

#[cfg(not(miri))] // reads a file of this machine and starts bpftool
mod btf_kernel;
#[cfg(not(miri))]
mod btf_queries;
