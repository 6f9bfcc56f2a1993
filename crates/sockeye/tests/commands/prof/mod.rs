//! Tests of `prof`.

mod command;
mod comparison;
mod files;
mod interpreters;
mod namespaces;
mod netns_list;
mod unwind;
