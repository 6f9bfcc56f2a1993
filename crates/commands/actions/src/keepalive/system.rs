//! The system's settings, which are another thing in each network namespace.

use crate::targets::Targets;
use sockeye_model::{Names, NetnsInode};
use sockeye_output::{JsonObject, harmless};
use sockeye_query::context::QueryContext;
use sockeye_source::KeepaliveSettings;
use std::collections::{BTreeMap, BTreeSet};

/// Of each place that sockets were found in; `None` is where we are.
#[derive(Debug)]
pub(super) struct Settings(BTreeMap<Option<NetnsInode>, KeepaliveSettings>);

/// Reads those of the places that the targets are in. Which cannot be entered are left out.
pub(super) fn of(targets: &Targets, context: &QueryContext) -> Settings {
    let places: BTreeSet<Option<NetnsInode>> = if context.namespaces.are_many() {
        targets.all.iter().map(|target| target.netns).collect()
    } else {
        // Also of a place without sockets.
        let place = context.namespaces.iter().next().flatten();
        [place.map(sockeye_query::namespaces::Namespace::inode)].into()
    };
    let read = |place: Option<NetnsInode>| match place {
        None => KeepaliveSettings::read(),
        Some(netns) => context.run_in(context.namespaces.with_inode(netns)?, KeepaliveSettings::read)?,
    };
    let settings = places
        .into_iter()
        .filter_map(|place| Some((place, read(place)?)))
        .collect();
    Settings(settings)
}

impl Settings {
    /// A line for each set of values, with the places that have it where there are several.
    pub(super) fn lines(&self, context: &QueryContext) -> Vec<String> {
        let mut same: BTreeMap<KeepaliveSettings, Vec<Option<NetnsInode>>> = BTreeMap::new();
        for (place, settings) in &self.0 {
            same.entry(*settings).or_default().push(*place);
        }
        let mut groups: Vec<_> = same.into_iter().collect();
        groups.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
        let more = groups.len().saturating_sub(LINES_MAX);
        let is_one = groups.len() == 1;
        let mut lines: Vec<String> = groups
            .iter()
            .take(LINES_MAX)
            .map(|(settings, places)| {
                let places = if is_one {
                    String::new()
                } else {
                    format!(" in {}", told(places, context))
                };
                let KeepaliveSettings {
                    time_s,
                    interval_s,
                    probes,
                } = settings;
                format!(
                    "System{places}: tcp_keepalive_time {time_s} s, tcp_keepalive_intvl {interval_s} s, \
                     tcp_keepalive_probes {probes}"
                )
            })
            .collect();
        if more > 0 {
            lines.push(format!(
                "... and {more} more; --format json tells of each network namespace"
            ));
        }
        lines
    }

    /// Appends `"system":[...]`.
    pub(super) fn push(&self, object: &mut JsonObject<'_>, context: &QueryContext) {
        let out = object.key("system");
        out.push(b'[');
        for (nth, (place, settings)) in self.0.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let mut fields = JsonObject::begin(out);
            if let Some(netns) = place {
                fields.number("netns_inode", Some(netns.0));
                fields.text("netns", context.netns(*netns));
            }
            fields.number("time_s", Some(settings.time_s));
            fields.number("interval_s", Some(settings.interval_s));
            fields.number("probes", Some(settings.probes));
            fields.end();
        }
        out.push(b']');
    }
}

/// `web1, web2 and 40 more`
fn told(places: &[Option<NetnsInode>], context: &QueryContext) -> String {
    let name = |place: &Option<NetnsInode>| match place {
        None => "this network namespace".to_owned(),
        Some(netns) => context
            .netns(*netns)
            .map_or_else(|| netns.to_string(), |name| harmless(name.as_bytes())),
    };
    let some: Vec<String> = places.iter().take(PLACES_MAX).map(name).collect();
    let more = places.len().saturating_sub(PLACES_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    some.join(", ") + &more
}

const LINES_MAX: usize = 5;
const PLACES_MAX: usize = 5;
