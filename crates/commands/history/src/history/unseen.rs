//! Says what the recorder could not see.

use sockeye_console::notes::say;
use sockeye_history::{Period, Unseen};
use sockeye_query::when;

/// Says what could not be seen, and when.
pub(super) fn say_unseen(unseen: &[Period<Unseen>]) {
    for unseen in unseen {
        say(&unseen_note(unseen));
    }
}

/// Returns what could not be seen, and when.
fn unseen_note(unseen: &Period<Unseen>) -> String {
    let Unseen { kind, part, why } = &unseen.what;
    let part = part.as_ref().map_or_else(String::new, |part| format!(", {part}"));
    format!(
        "sockeye: not recorded from {} to {}: {}{part}: {why}\n",
        when::local(unseen.began_ms),
        when::local(unseen.last_ms),
        kind.name(),
    )
}
