//! Notes about what is not stored: an answer without rows, or of a host without samples, is not that nothing was there.

use crate::args::CommonArgs;
use crate::server::ask;
use sockeye_console::notes::say;
use sockeye_fleet::question::{self, MissingHost, Question, Stored, TimeRange};
use sockeye_output::text::harmless;
use sockeye_query::when;
use sockeye_verdict::Rule;

/// Says why there are no edges. `question` is for what is stored.
pub(super) fn no_connection(common: &CommonArgs, question: &Question) -> anyhow::Result<()> {
    if let Some(hosts) = hosts_of(common, question)? {
        say(&format!(
            "sockeye: no connection of this time matches ({})\n",
            sent(hosts)
        ));
    }
    Ok(())
}

/// Says why there are no edges to a server.
pub(super) fn no_server(common: &CommonArgs, range: &TimeRange, service: &str) -> anyhow::Result<()> {
    if let Some(hosts) = hosts_of(common, &question::stored(range))? {
        let what = match service.parse::<u16>() {
            Ok(port) => format!("port {port}"),
            Err(_) => format!("a server named {}", harmless(service.as_bytes())),
        };
        say(&format!(
            "sockeye: no connection of this time is to {what} ({}): `sockeye fleet map` lists servers and ports\n",
            sent(hosts)
        ));
    }
    Ok(())
}

/// Says why there are no findings.
pub(super) fn no_finding(
    common: &CommonArgs,
    range: &TimeRange,
    rule: Option<&str>,
    host: Option<&str>,
) -> anyhow::Result<()> {
    let Some(hosts) = hosts_of(common, &question::stored(range))? else {
        return Ok(());
    };
    if let Some(rule) = rule.filter(|rule| Rule::from_name(rule).is_none()) {
        let known: Vec<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        say(&format!(
            "sockeye: no rule of this version is named {}; rules: {}\n",
            harmless(rule.as_bytes()),
            known.join(", ")
        ));
    }
    if let Some(host) = host {
        let known: Vec<String> = ask(common, &question::host_names(range))?;
        if !known.iter().any(|name| name == host) {
            say(&format!(
                "sockeye: no host that sent something of this time is named {}; hosts: {}\n",
                harmless(host.as_bytes()),
                some(known.iter().map(|name| harmless(name.as_bytes()).to_string()))
            ));
            return Ok(());
        }
    }
    say(&format!(
        "sockeye: no finding of this time matches ({})\n",
        sent(hosts)
    ));
    Ok(())
}

/// Names hosts that have no samples of a time.
pub(super) fn missing_hosts(common: &CommonArgs, at_s: u64) -> anyhow::Result<()> {
    let missing: Vec<MissingHost> = ask(common, &question::missing_at(at_s))?;
    for host in missing.iter().take(NAMED_MAX) {
        let until = host
            .until_ms
            .map_or_else(String::new, |ms| format!(" until {}", when::local(ms)));
        let reason = match host.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({})", harmless(reason.as_bytes())),
        };
        say(&format!(
            "sockeye: {} has no samples after {}{until}{reason}: what is listed of it is older than the time\n",
            harmless(host.host.as_bytes()),
            when::local(host.from_ms),
        ));
    }
    if missing.len() > NAMED_MAX {
        say(&format!(
            "sockeye: {} further hosts have no samples of this time: `sockeye fleet hosts` lists gaps\n",
            missing.len() - NAMED_MAX
        ));
    }
    Ok(())
}

/// Returns how many hosts sent something of a time. `None`: none did, which is said.
fn hosts_of(common: &CommonArgs, question: &Question) -> anyhow::Result<Option<u64>> {
    let stored: Vec<Stored> = ask(common, question)?;
    let (hosts, first_s, last_s) = stored
        .first()
        .map_or((0, 0, 0), |stored| (stored.hosts, stored.first_s, stored.last_s));
    if hosts > 0 {
        return Ok(Some(hosts));
    }
    let local = |at_s: u32| when::local(u64::from(at_s) * 1_000);
    say(&if last_s == 0 {
        "sockeye: nothing is stored: `sockeye export clickhouse` on each host sends what `sockeye record` recorded\n"
            .to_owned()
    } else {
        format!(
            "sockeye: nothing is stored of this time, but from {} to {}\n",
            local(first_s),
            local(last_s)
        )
    });
    Ok(None)
}

fn sent(hosts: u64) -> String {
    match hosts {
        1 => "1 host sent something of it".to_owned(),
        hosts => format!("{hosts} hosts sent something of it"),
    }
}

/// Returns some names.
fn some(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<_> = names.take(NAMED_MAX + 1).collect();
    if names.len() > NAMED_MAX {
        names[NAMED_MAX] = "...".to_owned();
    }
    names.join(", ")
}

/// More are counted only.
const NAMED_MAX: usize = 10;
