//! Tests of the drop-ins: `ss`, `netstat` and `lstf`, compared with the real ones on the same live sockets.

mod lstf;
mod netstat;
mod ss;
