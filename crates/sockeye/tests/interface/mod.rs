//! The binary as a whole: its command line, its help, completion, manual pages, the examples of its documents, what it prints on
//! which terminal, its schemas, and what it does with few rights and with hostile input.

mod command_line;
mod completion;
mod examples;
mod hostile;
mod manual;
mod output;
mod schema;
mod schema_files;
mod snapshots;
mod terminal;
mod unprivileged;

/// Creates a folder of a test's own.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("sockeye-{}-{name}", std::process::id()));
    std::fs::create_dir(&folder).expect("create a folder");
    folder
}
