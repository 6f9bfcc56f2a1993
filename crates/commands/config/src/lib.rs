//! Settings: default values of options, thresholds of `check` and aliases, from files and the environment; and `sockeye config`, which
//! shows them.
//!
//! - `configuration.rs`: what is in force, of the layers in their order;
//! - `layer.rs`: the variables of the environment, as keys and values;
//! - `setting.rs`: the name of a setting and its default value;
//! - `document.rs`: a TOML file as keys and values with their lines;
//! - `trusted_file.rs`: where the files are, and which of them are read;
//! - `words.rs`: the words of an alias, as a shell divides them.
//!
//! It deliberately does not know the commands: the caller gives it the names of the settings, and a function that checks a value.
//! It writes no file, and runs nothing.

mod args;
mod configuration;
mod document;
mod layer;
mod output;
mod run;
mod setting;
mod trusted_file;
mod words;

pub use args::ConfigArgs;
pub use configuration::{Alias, Configuration, Origin, Schema, Value};
pub use run::run;
pub use setting::Setting;
