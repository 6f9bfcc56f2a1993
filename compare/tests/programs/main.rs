//! What the programs of the comparison do, run as `make bench` runs them.

mod capturing;
mod compare;
mod load;
mod network;
