//! The system's keepalive settings, which each network namespace has.

use crate::targets::Targets;
use sockeye_model::{Names, NetnsInode};
use sockeye_output::{JsonObject, harmless};
use sockeye_query::context::QueryContext;
use sockeye_source::KeepaliveSettings;
use std::collections::{BTreeMap, BTreeSet};

/// Settings of each namespace; `None` is our own.
#[derive(Debug)]
pub(super) struct Settings(BTreeMap<Option<NetnsInode>, KeepaliveSettings>);

/// Reads the settings of the namespaces of the targets; without those that cannot be entered.
pub(super) fn of(targets: &Targets, context: &QueryContext) -> Settings {
    let namespaces: BTreeSet<Option<NetnsInode>> = if context.namespaces.are_many() {
        targets.all.iter().map(|target| target.netns).collect()
    } else {
        // Also of a namespace without sockets.
        let netns = context.namespaces.iter().next().flatten();
        [netns.map(sockeye_query::namespaces::Namespace::inode)].into()
    };
    let read = |netns: Option<NetnsInode>| match netns {
        None => KeepaliveSettings::read(),
        Some(netns) => context.run_in(context.namespaces.with_inode(netns)?, KeepaliveSettings::read)?,
    };
    let settings = namespaces
        .into_iter()
        .filter_map(|netns| Some((netns, read(netns)?)))
        .collect();
    Settings(settings)
}

impl Settings {
    /// Returns whether none could be read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a line for each set of values, with its namespaces if there are several sets.
    pub(super) fn lines(&self, context: &QueryContext) -> Vec<String> {
        let mut same: BTreeMap<KeepaliveSettings, Vec<Option<NetnsInode>>> = BTreeMap::new();
        for (netns, settings) in &self.0 {
            same.entry(*settings).or_default().push(*netns);
        }
        let mut groups: Vec<_> = same.into_iter().collect();
        groups.sort_by_key(|(_, namespaces)| std::cmp::Reverse(namespaces.len()));
        let more = groups.len().saturating_sub(LINES_MAX);
        let is_one = groups.len() == 1;
        let mut lines: Vec<String> = groups
            .iter()
            .take(LINES_MAX)
            .map(|(settings, namespaces)| {
                let namespaces = if is_one {
                    String::new()
                } else {
                    format!(" in {}", list_names(namespaces, context))
                };
                let KeepaliveSettings {
                    time_s,
                    interval_s,
                    probes,
                } = settings;
                format!(
                    "System{namespaces}: tcp_keepalive_time {time_s} s, tcp_keepalive_intvl {interval_s} s, \
                     tcp_keepalive_probes {probes}"
                )
            })
            .collect();
        if more > 0 {
            lines.push(format!(
                "... and {more} more; --format json lists each network namespace"
            ));
        }
        lines
    }

    /// Appends `"system":[...]`.
    pub(super) fn push(&self, object: &mut JsonObject<'_>, context: &QueryContext) {
        let out = object.key("system");
        out.push(b'[');
        for (nth, (netns, settings)) in self.0.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let mut fields = JsonObject::begin(out);
            if let Some(netns) = netns {
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
fn list_names(namespaces: &[Option<NetnsInode>], context: &QueryContext) -> String {
    let name = |netns: &Option<NetnsInode>| match netns {
        None => "this network namespace".to_owned(),
        Some(netns) => context
            .netns(*netns)
            .map_or_else(|| netns.to_string(), |name| harmless(name.as_bytes())),
    };
    let some: Vec<String> = namespaces.iter().take(NAMES_MAX).map(name).collect();
    let more = namespaces.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    some.join(", ") + &more
}

const LINES_MAX: usize = 5;
const NAMES_MAX: usize = 5;
