//! Rules about what all namespaces share, and about limits of processes.

use crate::finding::Subject;
use crate::share::{fill_above, permille, severity_of_fill};
use crate::{Finding, Limit, Limits, Rule, Severity};
use sockeye_model::{Fill, HostVitals, MemoryUse, NeighbourTable, Neighbours, OpenFiles, Softnet, Vitals};

pub(crate) fn findings(
    host: &HostVitals,
    before: Option<&HostVitals>,
    namespaces: &[Vitals],
    limits: &Limits,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for processor in &host.processors {
        let earlier = before.and_then(|host| {
            let mut all = host.processors.iter();
            all.find(|earlier| earlier.processor == processor.processor)
        });
        found.extend(softnet(processor, earlier, limits));
    }
    found.extend(host.neighbours.iter().filter_map(|table| {
        let earlier = before.and_then(|host| {
            let mut all = host.neighbours.iter();
            all.find(|earlier| earlier.name == table.name)
        });
        neighbours(table, earlier, host.neighbours_elsewhere, namespaces, limits)
    }));
    let (tcp, udp) = (limits.of(Limit::TcpMemoryShare), limits.of(Limit::UdpMemoryShare));
    found.extend(memory(Rule::TcpMemory, "net.ipv4.tcp_mem", host.tcp_memory, tcp));
    found.extend(memory(Rule::UdpMemory, "net.ipv4.udp_mem", host.udp_memory, udp));
    found.extend(orphans(host, limits));
    found.extend(host.files.iter().filter_map(|files| open_files(files, limits)));
    found
}

fn softnet(now: &Softnet, before: Option<&Softnet>, limits: &Limits) -> Option<Finding> {
    let nothing = Softnet::default();
    let is_since_start = before.is_none();
    let before = before.unwrap_or(&nothing);
    let processed = now.processed.saturating_sub(before.processed);
    let dropped = now.dropped.saturating_sub(before.dropped);
    let squeezed = now.squeezed.saturating_sub(before.squeezed);
    let about = |rule| {
        Finding::about(rule, None, Subject::Processor(now.processor))
            .fact("processed", processed)
            .fact("dropped", dropped)
            .fact("squeezed", squeezed)
    };
    let share = permille(dropped, processed.saturating_add(dropped));
    if dropped >= limits.of(Limit::SoftnetCount) && share >= limits.of(Limit::SoftnetShare) {
        let mut finding = about(Rule::Softnet)
            .anywhere("sysctl -w net.core.netdev_max_backlog=10000")
            .advice("spread packets over processors (RSS, RPS), or let the device merge them (GRO)");
        // Events since the host started may be long over.
        if is_since_start {
            finding.severity = Severity::Notice;
        }
        return Some(finding);
    }
    let share = permille(squeezed, processed);
    let applies = squeezed >= limits.of(Limit::SqueezedCount) && share >= limits.of(Limit::SqueezedShare);
    applies.then(|| {
        about(Rule::SoftnetSqueezed)
            .anywhere("sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000")
            .advice("spread packets over processors (RSS, RPS)")
    })
}

fn neighbours(
    table: &NeighbourTable,
    before: Option<&NeighbourTable>,
    elsewhere: Option<Neighbours>,
    namespaces: &[Vitals],
    limits: &Limits,
) -> Option<Finding> {
    let is_v6 = table.name.as_bytes().starts_with(b"nd");
    let overflows = before.map(|before| table.overflows.saturating_sub(before.overflows));
    let overflowed = overflows.is_some_and(|overflows| overflows > 0);
    let (fill, is_full) = match entries(table, elsewhere, namespaces, limits) {
        Entries::Full(fill) => (fill, true),
        // An entry that was refused shows that the limit counts most of them.
        Entries::PerhapsFull(fill) => (fill, table.overflows > 0 && fill.used <= fill.max),
        Entries::NotFull(fill) => (fill, false),
    };
    if !is_full && !overflowed {
        return None;
    }
    let family = if is_v6 { "ipv6" } else { "ipv4" };
    let max = table.fill.max.max(1);
    let mut finding = Finding::about(Rule::Neighbours, None, Subject::Table(table.name))
        .fact("entries", fill.used)
        .fact("entries_max", fill.max)
        .fact("share_permille", permille(fill.used, fill.max))
        .fact("overflows", overflows.unwrap_or(table.overflows))
        .inside("ip neigh | awk '{print $3, $NF}' | sort | uniq -c | sort -rn | head")
        .anywhere(format!(
            "sysctl -w net.{family}.neigh.default.gc_thresh3={} net.{family}.neigh.default.gc_thresh2={}",
            max.saturating_mul(4),
            max.saturating_mul(2),
        ))
        .advice("this limit exists in the initial network namespace only: set it there");
    if !overflowed {
        finding.severity = severity_of_fill(permille(fill.used, fill.max));
    }
    Some(finding)
}

/// How full a table of neighbours is.
enum Entries {
    Full(Fill),
    /// Its limit may not count some of the entries: they are in namespaces that were not read.
    PerhapsFull(Fill),
    NotFull(Fill),
}

/// The table is one for all namespaces, and also holds entries that its limit does not count, as permanent ones. Which those
/// are is known of the namespaces that were read.
fn entries(
    table: &NeighbourTable,
    elsewhere: Option<Neighbours>,
    namespaces: &[Vitals],
    limits: &Limits,
) -> Entries {
    let is_v6 = table.name.as_bytes().starts_with(b"nd");
    let known = namespaces
        .iter()
        .filter_map(|vitals| vitals.neighbours)
        .chain(elsewhere);
    let (mut exempt, mut limited) = (0_u64, 0_u64);
    for known in known {
        let [out, within] = if is_v6 {
            [known.exempt_ipv6, known.limited_ipv6]
        } else {
            [known.exempt_ipv4, known.limited_ipv4]
        };
        exempt = exempt.saturating_add(out);
        limited = limited.saturating_add(within);
    }
    let at_most = table.fill.used.saturating_sub(exempt);
    let fill = |used| Fill {
        used,
        max: table.fill.max,
    };
    let is_near = |used| fill_above(fill(used), limits.of(Limit::NeighboursShare)).is_some();
    // Below the half of it entries are not counted by namespace: only a lower threshold asks for that.
    if table.fill.used.saturating_mul(2) < table.fill.max && is_near(at_most) {
        return Entries::Full(fill(at_most));
    }
    if is_near(limited.min(at_most)) {
        Entries::Full(fill(limited.min(at_most)))
    } else if is_near(at_most) {
        Entries::PerhapsFull(fill(at_most))
    } else {
        Entries::NotFull(fill(at_most))
    }
}

/// Whether a table of neighbours may be nearly full, but that is not certain.
pub(crate) fn has_unclear_neighbours(host: &HostVitals, namespaces: &[Vitals], limits: &Limits) -> bool {
    host.neighbours.iter().any(|table| {
        let entries = entries(table, host.neighbours_elsewhere, namespaces, limits);
        let is_found = |fill: Fill| table.overflows > 0 && fill.used <= fill.max;
        matches!(entries, Entries::PerhapsFull(fill) if !is_found(fill))
    })
}

fn memory(rule: Rule, setting: &str, memory: Option<MemoryUse>, least_share: u64) -> Option<Finding> {
    let MemoryUse {
        used_bytes,
        limits_bytes: [_, pressure, max],
    } = memory?;
    let share = permille(used_bytes, pressure);
    if used_bytes == 0 || share < least_share {
        return None;
    }
    let finding = Finding::about(rule, None, Subject::Host)
        .fact("used_bytes", used_bytes)
        .fact("pressure_bytes", pressure)
        .fact("max_bytes", max)
        .sockeye("sockets -tump --sort=-memory --netns all")
        .anywhere(format!("sysctl {setting}"))
        .advice("find the sockets that are not read or cannot send; more memory for sockets only delays it");
    Some(finding.with(severity_of_fill(permille(used_bytes, max))))
}

fn orphans(host: &HostVitals, limits: &Limits) -> Option<Finding> {
    let fill = host.orphans?;
    let share = fill_above(fill, limits.of(Limit::OrphansShare))?;
    Some(
        Finding::about(Rule::Orphans, None, Subject::Host)
            .fact("orphans", fill.used)
            .fact("orphans_max", fill.max)
            .fact("share_permille", share)
            .sockeye("sockets -tno state closing or state fin-wait-1 or state last-ack --netns all")
            .anywhere("sysctl -w net.ipv4.tcp_orphan_retries=3")
            .anywhere(format!(
                "sysctl -w net.ipv4.tcp_max_orphans={}",
                fill.max.saturating_mul(2)
            )),
    )
}

/// Twice the limit, as prlimit(1) takes it: only the soft limit, if the hard one allows it.
fn doubled_limit(files: &OpenFiles) -> String {
    let limit = files.fill.max.saturating_mul(2);
    match files.hard_max {
        Some(hard) if hard < limit => format!("{limit}:{limit}"),
        _ => format!("{limit}:"),
    }
}

fn open_files(files: &OpenFiles, limits: &Limits) -> Option<Finding> {
    let share = fill_above(files.fill, limits.of(Limit::OpenFilesShare))?;
    let pid = files.process.pid;
    let kinds = files.kinds;
    let unlisted = kinds.and_then(|kinds| kinds.unlisted_sockets).unwrap_or(0);
    let known = |count: u64| Some(count).filter(|count| *count > 0);
    let mut finding = Finding::about(Rule::OpenFiles, None, Subject::Process)
        .fact("open_files", files.fill.used)
        .fact("open_files_max", files.fill.max)
        .fact("share_permille", share)
        .fact("sockets", kinds.and_then(|kinds| known(kinds.sockets)))
        .fact("dead_sockets", known(unlisted))
        .fact("files", kinds.and_then(|kinds| known(kinds.files)))
        .fact("pipes", kinds.and_then(|kinds| known(kinds.pipes)))
        .fact("others", kinds.and_then(|kinds| known(kinds.others)));
    // A leak of sockets that no listing shows.
    if unlisted.saturating_mul(2) >= files.fill.used {
        finding.meaning = DEAD_SOCKETS;
        finding = finding
            .advice("mend the program: it does not close sockets whose connections were reset or failed");
    } else {
        finding = finding.sockeye(format!("sockets -ap 'pid = {pid}' --netns all"));
    }
    finding = finding.anywhere(format!("prlimit --pid {pid} --nofile={}", doubled_limit(files)));
    finding.owner = Some(files.process);
    finding.severity = severity_of_fill(share);
    Some(finding)
}

const DEAD_SOCKETS: &str = "The process has nearly as many files open as it may, most of them sockets that are in no table: their connections were reset or failed, or were never made, and it never closed them. accept() and connect() will fail with EMFILE.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;
    use sockeye_model::{Comm, Fill, Pid, Process, ShortText};

    #[track_caller]
    fn check(before: Option<&HostVitals>, now: &HostVitals, expected: &[&str]) -> Vec<Finding> {
        let found = findings(now, before, &[Vitals::default()], &Limits::default());
        let names: Vec<String> = found
            .iter()
            .map(|finding| format!("{} {}", finding.severity, finding.rule))
            .collect();
        assert_eq!(names, expected, "{found:#?}");
        found
    }

    fn host(change: impl FnOnce(&mut HostVitals)) -> HostVitals {
        let mut host = HostVitals::default();
        change(&mut host);
        host
    }

    #[test]
    fn unknown_values_give_no_finding() {
        check(None, &HostVitals::default(), &[]);
    }

    #[test]
    fn softnet_drops_and_squeezes_are_found() {
        let of = |processed, dropped, squeezed| {
            host(|host| {
                host.processors = vec![
                    Softnet::default(),
                    Softnet {
                        processor: 1,
                        processed,
                        dropped,
                        squeezed,
                    },
                ];
            })
        };
        let found = check(None, &of(10_000, 11, 0), &["notice softnet"]);
        assert_eq!(found[0].subject, Subject::Processor(1));
        check(None, &of(10_000, 9, 0), &[]);
        check(None, &of(1_000_000, 11, 0), &[]);
        check(Some(&of(10_000, 11, 0)), &of(20_000, 11, 0), &[]);
        let found = check(
            Some(&of(1_000_000, 11, 0)),
            &of(1_001_000, 31, 0),
            &["warning softnet"],
        );
        assert_eq!(found[0].facts.value("dropped"), Some(20));
        check(None, &of(10_000, 0, 100), &["notice softnet-squeezed"]);
        check(None, &of(10_000, 0, 99), &[]);
        check(None, &of(10_001, 0, 100), &[]);
        // One fault, one finding.
        check(None, &of(10_000, 500, 500), &["notice softnet"]);
    }

    #[test]
    fn full_neighbour_table_is_found() {
        let of = |name: &[u8], used| {
            host(|host| {
                host.neighbours = vec![NeighbourTable {
                    name: ShortText::new(name),
                    fill: Fill { used, max: 1024 },
                    overflows: 7,
                }];
            })
        };
        check(None, &of(b"arp_cache", 819), &[]);
        let found = check(None, &of(b"arp_cache", 820), &["warning neighbours"]);
        assert_eq!(found[0].facts.value("overflows"), Some(7));
        let found = check(None, &of(b"ndisc_cache", 1000), &["critical neighbours"]);
        let raise = "sysctl -w net.ipv6.neigh.default.gc_thresh3=4096 net.ipv6.neigh.default.gc_thresh2=2048";
        assert!(
            found[0].remedies.contains(&Remedy::Anywhere(raise.into())),
            "{found:?}"
        );
        // It is enough that the table was full in between.
        let mut before = of(b"arp_cache", 100);
        check(Some(&before), &before, &[]);
        before.neighbours[0].overflows = 6;
        let found = check(Some(&before), &of(b"arp_cache", 100), &["critical neighbours"]);
        assert_eq!(found[0].facts.value("overflows"), Some(1));
    }

    #[test]
    fn exempt_neighbours_are_not_counted() {
        let host = host(|host| {
            host.neighbours = vec![NeighbourTable {
                name: ShortText::new(b"arp_cache"),
                fill: Fill {
                    used: 1000,
                    max: 1024,
                },
                overflows: 0,
            }];
        });
        let namespaces = [540, 30].map(|exempt_ipv4| Vitals {
            neighbours: Some(sockeye_model::Neighbours {
                exempt_ipv4,
                exempt_ipv6: 900,
                limited_ipv4: 215,
                limited_ipv6: 0,
            }),
            ..Vitals::default()
        });
        let found = findings(&host, None, &namespaces, &Limits::default());
        assert!(found.is_empty(), "{found:#?}");
        let mut limits = Limits::default();
        limits.set(Limit::NeighboursShare, 400);
        let found = findings(&host, None, &namespaces, &limits);
        assert_eq!(found[0].facts.value("entries"), Some(430));
    }

    #[test]
    fn entries_that_may_not_count_are_no_proof() {
        let full = |used, overflows| {
            host(|host| {
                host.neighbours = vec![NeighbourTable {
                    name: ShortText::new(b"arp_cache"),
                    fill: Fill { used, max: 1024 },
                    overflows,
                }];
            })
        };
        let limits = Limits::default();
        let unclear = |host: &HostVitals| has_unclear_neighbours(host, &[], &limits);
        // More than the limit: some do not count, and it is not known how many.
        check(None, &full(1134, 0), &[]);
        assert!(unclear(&full(1134, 0)) && unclear(&full(900, 0)) && !unclear(&full(500, 0)));
        // Entries were refused.
        check(None, &full(900, 3), &["warning neighbours"]);
        // Those of the other namespaces are known.
        let mut known = full(1134, 0);
        known.neighbours_elsewhere = Some(Neighbours {
            exempt_ipv4: 1100,
            limited_ipv4: 34,
            ..Neighbours::default()
        });
        check(None, &known, &[]);
        assert!(!unclear(&known));
        known.neighbours_elsewhere = Some(Neighbours {
            exempt_ipv4: 134,
            limited_ipv4: 1000,
            ..Neighbours::default()
        });
        check(None, &known, &["critical neighbours"]);
    }

    #[test]
    fn protocol_memory_near_its_limit_is_found() {
        let of = |used_bytes| {
            Some(MemoryUse {
                used_bytes,
                limits_bytes: [500, 1000, 1500],
            })
        };
        check(None, &host(|host| host.tcp_memory = of(899)), &[]);
        check(
            None,
            &host(|host| host.tcp_memory = of(900)),
            &["warning tcp-memory"],
        );
        check(
            None,
            &host(|host| host.tcp_memory = of(1425)),
            &["critical tcp-memory"],
        );
        check(
            None,
            &host(|host| host.udp_memory = of(1000)),
            &["warning udp-memory"],
        );
    }

    #[test]
    fn orphans_and_open_files_near_their_limits_are_found() {
        let orphans = |used| host(|host| host.orphans = Some(Fill { used, max: 1000 }));
        check(None, &orphans(499), &[]);
        check(None, &orphans(500), &["warning orphans"]);
        let process = Process {
            pid: Pid(7),
            pgid: None,
            comm: Comm::new(b"leaky"),
        };
        let files = |used| {
            host(|host| {
                host.files = vec![OpenFiles {
                    process,
                    fill: Fill { used, max: 1000 },
                    hard_max: Some(1500),
                    kinds: None,
                }];
            })
        };
        check(None, &files(799), &[]);
        let found = check(None, &files(800), &["warning open-files"]);
        assert_eq!(found[0].owner, Some(process));
        let raise = |remedy: &Remedy| matches!(remedy, Remedy::Anywhere(text) if text == "prlimit --pid 7 --nofile=2000:2000");
        assert!(found[0].remedies.iter().any(raise), "{:?}", found[0].remedies);
        check(None, &files(950), &["critical open-files"]);
    }
}
