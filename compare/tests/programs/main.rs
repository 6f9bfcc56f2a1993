//! Tests of the comparison's programs, run as `make bench` runs them.

mod capturing;
mod compare;
mod load;
mod network;
