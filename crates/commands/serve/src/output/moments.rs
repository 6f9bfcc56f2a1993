//! Which times are kept, and what was at each.

use crate::history::Stretch;
use crate::moments::{CheckMark, Gap};
use sockeye_output::{Envelope, JsonObject};
use std::time::Duration;

/// Which times are kept.
pub(crate) struct MomentsPage<'a> {
    pub(crate) times_us: &'a [u64],
    /// The first and the last recorded sample.
    pub(crate) recorded_us: Option<(u64, u64)>,
    pub(crate) checks: &'a [CheckMark],
    pub(crate) gaps: &'a [Gap],
    pub(crate) interval: Duration,
}

/// Appends the times that are kept: `docs/schema/serve.schema.json`, `$defs/moments`.
pub(crate) fn push_moments(out: &mut Vec<u8>, now: &Envelope, page: &MomentsPage<'_>) {
    let mut object = JsonObject::begin(out);
    now.push(&mut object, "moments");
    let interval_ms = u64::try_from(page.interval.as_millis()).unwrap_or(u64::MAX);
    object.number("interval_ms", Some(interval_ms));
    push_recorded(&mut object, page.recorded_us);
    push_list(object.key("times_us"), page.times_us, |out, time_us| {
        push_number(out, *time_us);
    });
    push_checks_and_gaps(&mut object, page.checks, page.gaps);
    object.end();
}

/// Appends the sample that was stepped to: `docs/schema/serve.schema.json`, `$defs/step`.
pub(crate) fn push_step(out: &mut Vec<u8>, time_us: Option<u64>) {
    let mut object = JsonObject::begin(out);
    object.word("type", "step");
    object.number("time_us", time_us);
    object.end();
}

/// Appends sums over time: `docs/schema/serve.schema.json`, `$defs/timeline`.
pub(crate) fn push_timeline(
    out: &mut Vec<u8>,
    now: &Envelope,
    stretch: &Stretch,
    recorded_us: Option<(u64, u64)>,
) {
    let mut object = JsonObject::begin(out);
    now.push(&mut object, "timeline");
    push_recorded(&mut object, recorded_us);
    push_list(object.key("points"), &stretch.points, |out, (time_us, point)| {
        let mut fields = JsonObject::begin(out);
        fields.number("time_us", Some(*time_us));
        fields.number("connections", Some(point.connections));
        for (name, rate) in [
            ("sent_bytes_per_s", point.sent_bytes_per_s),
            ("received_bytes_per_s", point.received_bytes_per_s),
            ("retrans_segs_per_s", point.retrans_segs_per_s),
        ] {
            if let Some(rate) = rate {
                fields.float(name, rate);
            }
        }
        fields.number("rtt_us_median", point.rtt_us_median);
        fields.end();
    });
    push_checks_and_gaps(&mut object, &stretch.checks, &stretch.gaps);
    object.end();
}

fn push_recorded(object: &mut JsonObject<'_>, recorded_us: Option<(u64, u64)>) {
    object.number("recorded_from_us", recorded_us.map(|(first_us, _)| first_us));
    object.number("recorded_until_us", recorded_us.map(|(_, last_us)| last_us));
}

fn push_checks_and_gaps(object: &mut JsonObject<'_>, checks: &[CheckMark], gaps: &[Gap]) {
    push_list(object.key("check_times"), checks, |out, mark| {
        let mut fields = JsonObject::begin(out);
        fields.number("time_us", Some(mark.time_us));
        fields.number("finding_count", Some(mark.findings));
        fields.text("worst", mark.worst.as_deref());
        fields.end();
    });
    push_list(object.key("gaps"), gaps, |out, gap| {
        let mut fields = JsonObject::begin(out);
        fields.number("from_us", Some(gap.from_us));
        fields.number("to_us", Some(gap.to_us));
        fields.text("reason", Some(&gap.reason));
        fields.end();
    });
}

/// Appends an array whose items `push` appends.
pub(super) fn push_list<T>(out: &mut Vec<u8>, items: &[T], mut push: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (nth, item) in items.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push(out, item);
    }
    out.push(b']');
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(number.to_string().as_bytes());
}
