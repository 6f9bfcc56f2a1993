//! Says what the recorder could not see.

use sockeye_console::notes::say;
use sockeye_history::{Gap, GapReason, Period, Unseen};
use sockeye_query::when;
use sockeye_store::{Nearest, StoreReader, Toward};

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

/// Says in which parts of a time nothing was recorded. `lacking`: what the answer lacks there, as a sentence's end.
pub(super) fn say_unrecorded(store: &StoreReader, times_ms: (u64, u64), lacking: &str) -> anyhow::Result<()> {
    let (from_ms, to_ms) = times_ms;
    let Some(first_ms) = store.next_sample(0, Toward::Future)? else {
        say("sockeye: nothing is recorded yet\n");
        return Ok(());
    };
    if first_ms > from_ms {
        say(&format!(
            "sockeye: nothing is recorded before {}\n",
            when::local(first_ms)
        ));
    }
    // What was only late lost nothing.
    let mut gaps = store.gaps_within(times_ms)?;
    gaps.retain(|gap| gap.reason != GapReason::Late);
    match &gaps[..] {
        [] => {}
        [gap] => say(&format!(
            "sockeye: nothing is recorded from {} to {} ({}): {lacking}\n",
            when::local(gap.from_ms),
            when::local(gap.to_ms),
            gap.reason.name()
        )),
        gaps => {
            let missing_ms: u64 = gaps.iter().map(|gap| length_ms(gap, times_ms)).sum();
            say(&format!(
                "sockeye: nothing is recorded in {} gaps, together {} s, which `sockeye history list` has: {lacking}\n",
                gaps.len(),
                missing_ms.div_ceil(1000)
            ));
        }
    }
    if let Nearest::After(last_ms) = store.sample_at(to_ms)? {
        say(&format!(
            "sockeye: nothing is recorded after {}\n",
            when::local(last_ms)
        ));
    }
    Ok(())
}

/// Returns how much of a gap lies in a time.
fn length_ms(gap: &Gap, (from_ms, to_ms): (u64, u64)) -> u64 {
    gap.to_ms.min(to_ms).saturating_sub(gap.from_ms.max(from_ms))
}
