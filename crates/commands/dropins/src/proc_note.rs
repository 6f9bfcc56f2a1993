//! The note on a missing `/proc`, which the originals have not: they report each file, or list nothing.

use sockeye_console::notes;
use sockeye_sys::proc_mount;
use std::sync::Once;

/// Notes once why a file of `/proc` could not be read, if `/proc` is not usable, with the remedy.
pub(crate) fn say_if_missing(tool: &str) {
    static NOTED: Once = Once::new();
    if let Some(problem) = proc_mount::problem() {
        NOTED.call_once(|| notes::say(&format!("{tool}: {problem}\n")));
    }
}
