//! The binary as a whole: its command line, its help, what it prints on which terminal, its schemas, and what it does with few
//! rights and with hostile input.

mod command_line;
mod hostile;
mod output;
mod schema;
mod schema_files;
mod snapshots;
mod terminal;
mod unprivileged;
