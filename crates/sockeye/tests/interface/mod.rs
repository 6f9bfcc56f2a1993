//! Tests of the whole binary: command line, help, completion, manual pages, examples of the documents, terminals, schemas, missing
//! rights and hostile input.

mod aborted;
mod command_line;
mod completion;
mod examples;
mod hostile;
mod interface_page;
mod live_screen;
mod manual;
mod output;
mod output_files;
mod records;
mod schema;
mod schema_files;
mod snapshots;
mod terminal;
mod unprivileged;
mod without_proc;

/// Creates a folder of a test's own.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("sockeye-{}-{name}", std::process::id()));
    std::fs::create_dir(&folder).expect("create a folder");
    folder
}
