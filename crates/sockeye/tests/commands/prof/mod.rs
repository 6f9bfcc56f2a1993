//! Tests of `prof`.

mod apart;
mod command;
mod story;
mod told;
mod truth;
