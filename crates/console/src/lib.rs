//! Input and output of every command: standard output, the envelope of documents, notes on standard error, progress, confirmation, usage errors,
//! output files, and their flags.
//!
//! It deliberately does not list sockets, resolve names, or format output.
//!
//! ```
//! use sockeye_console::values::seconds;
//! assert_eq!(seconds("0.5").unwrap().as_millis(), 500);
//! ```

pub mod addresses;
pub mod args;

pub mod confirm;
pub mod envelope;
pub mod exit;
pub mod live;
pub mod locale;
pub mod notes;
pub mod output_file;
pub mod progress;
pub mod rows;
pub mod server_args;
pub mod stdout;
pub mod tls_args;
pub mod usage;
pub mod values;
