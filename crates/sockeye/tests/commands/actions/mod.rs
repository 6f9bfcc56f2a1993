//! Tests of `keepalive` and `kill`.

mod keepalive;
mod keepalive_cgroup;
mod keepalive_reuse;
mod kill;
