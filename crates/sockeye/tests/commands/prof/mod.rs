//! Tests of `prof`.

mod command;
mod comparison;
mod files;
mod namespaces;
mod netns_list;
