//! What a check could not judge, and why: part of its result.

use super::NotJudged;
use super::RuleSelection;
use crate::listing::ListingReport;
use sockeye_model::{HostVitals, Vitals};
use sockeye_source::vitals;
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, remedy};
use sockeye_verdict::{Coverage, Rule, Scope};
use std::time::Duration;

/// Collects what could not be judged.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Namespaces whose counters could not be read.
    without_counters: u64,
    /// Namespaces whose devices could not be read.
    without_devices: u64,
    /// Rules about the host that lack their figures.
    host_rules: Vec<Rule>,
    /// Rules that are judged in the initial network namespace only, and this is another one.
    pub(super) on_host_only: Vec<Rule>,
    /// Processes whose open files or limit could not be read.
    pub(super) unreadable_files: u64,
    /// Namespaces whose packet filter rules could not be read.
    pub(super) unreadable_firewalls: u64,
    /// A table of neighbours may be nearly full, but not all of its entries are known.
    pub(super) unclear_neighbours: bool,
    /// Suspicious sockets that were seen only once.
    pub(super) unproven: bool,
    /// The sockets are those of a recorded sample.
    pub(super) is_recorded: bool,
}

impl Gaps {
    /// Notes what is missing of a namespace.
    pub(super) fn namespace(&mut self, vitals: &Vitals) {
        use sockeye_model::Counter;
        self.without_counters += u64::from(vitals.counters.value(Counter::TcpInSegs).is_none());
        // Every namespace has a loopback device.
        self.without_devices += u64::from(vitals.devices.is_empty());
    }

    /// Notes what is missing of the host.
    pub(super) fn host(&mut self, host: &HostVitals) {
        let missing = [
            (
                host.processors.is_empty(),
                &[Rule::Softnet, Rule::SoftnetSqueezed][..],
            ),
            (host.neighbours.is_empty(), &[Rule::Neighbours]),
            (host.tcp_memory.is_none(), &[Rule::TcpMemory]),
            (host.udp_memory.is_none(), &[Rule::UdpMemory]),
            (host.orphans.is_none(), &[Rule::Orphans]),
        ];
        let is_elsewhere = vitals::lacks_host_settings();
        for (_, rules) in missing.iter().filter(|(is_missing, _)| *is_missing) {
            // No right would help: these limits exist in the initial network namespace only.
            if is_elsewhere && rules.iter().all(|rule| ON_HOST_ONLY.contains(rule)) {
                self.on_host_only.extend_from_slice(rules);
            } else {
                self.host_rules.extend_from_slice(rules);
            }
        }
    }

    /// Whether what a rule needs can exist here: there is no gap that takes it away as a whole.
    pub(super) fn can_judge(&self, rule: Rule) -> bool {
        !self.on_host_only.contains(&rule) && (!self.is_recorded || rule.is_judged_by_record())
    }

    /// Returns what the rules could not judge whose figures are not recorded.
    fn not_recorded(&self, selection: &RuleSelection, concerns: impl Fn(Rule) -> bool) -> Vec<NotJudged> {
        let gap = |rules: Vec<Rule>, text: &str| {
            let count = rules.len() as u64;
            (self.is_recorded && count > 0).then(|| NotJudged {
                kind: "not_recorded",
                count,
                rules,
                text: text.to_owned(),
                remedy: None,
            })
        };
        let selected = || selection.rules().filter(|rule| concerns(*rule));
        let lacking = selected().filter(|rule| !rule.is_judged_by_record()).collect();
        let in_part = selected().filter(|rule| *rule == Rule::SocketDrops).collect();
        let gaps = [
            gap(
                lacking,
                "timers, segments sent, settings, counters and devices are not recorded",
            ),
            gap(
                in_part,
                "drops of TCP: the counters of the network namespace are not recorded",
            ),
        ];
        gaps.into_iter().flatten().collect()
    }

    /// Returns what the selected rules could not judge.
    pub(super) fn list(
        &self,
        report: &ListingReport,
        seen: &Coverage,
        interval: Option<Duration>,
        selection: &RuleSelection,
        concerns: impl Fn(Rule) -> bool,
    ) -> Vec<NotJudged> {
        let mut all = self.not_recorded(selection, &concerns);
        let can_judge = |rule| concerns(rule) && (!self.is_recorded || rule.is_judged_by_record());
        let mut add = |kind, count: u64, rules: &[Rule], [one, many]: [&str; 2], advice: Option<String>| {
            let rules: Vec<Rule> = rules
                .iter()
                .copied()
                .filter(|rule| selection.has(*rule) && can_judge(*rule))
                .collect();
            if count > 0 && !rules.is_empty() {
                let is_every = rules.len() == selection.count(|rule| can_judge(*rule));
                all.push(NotJudged {
                    kind,
                    count,
                    rules: if is_every { Vec::new() } else { rules },
                    text: if one.is_empty() {
                        many.to_owned()
                    } else {
                        format!("{count} {}", if count == 1 { one } else { many })
                    },
                    remedy: advice,
                });
            }
        };
        // Processes and namespaces of others are the host's.
        let on_host = |capabilities| Some(remedy(capabilities, CheckedIn::Initial));
        let losses = &report.losses;
        let all_rules = Rule::ALL;
        let of = |scope| -> Vec<Rule> {
            Rule::ALL
                .iter()
                .copied()
                .filter(|rule| rule.scope() == scope)
                .collect()
        };
        let socket_rules = of(Scope::Sockets);
        let connection_rules: Vec<Rule> = socket_rules
            .iter()
            .copied()
            .filter(|rule| !NEED_NO_INFO.contains(rule))
            .collect();
        add(
            "namespaces",
            losses.unreadable_namespaces,
            all_rules,
            [
                "network namespace could not be entered",
                "network namespaces could not be entered",
            ],
            on_host("CAP_SYS_ADMIN and CAP_SYS_PTRACE"),
        );
        let unlisted = report
            .used
            .iter()
            .filter(|used| used.source.is_none() && !used.optional)
            .count() as u64;
        add(
            "protocols",
            unlisted,
            &socket_rules,
            ["protocol could not be listed", "protocols could not be listed"],
            Some("`sockeye doctor` shows what works here".to_owned()),
        );
        let broken_off = report
            .used
            .iter()
            .filter(|used| used.ended_early.is_some())
            .count() as u64;
        let incomplete = losses.incomplete_dumps
            + losses.unsettled_chains
            + losses.truncated_messages
            + losses.broken_records
            + broken_off;
        add(
            "sockets",
            incomplete,
            &socket_rules,
            [
                "",
                "sockets may be missing: listings of the kernel stayed incomplete",
            ],
            Some("try again, or --source diag".to_owned()),
        );
        add(
            "connections",
            seen.without_info,
            &connection_rules,
            [
                "TCP connection without tcp_info: its source does not have it",
                "TCP connections without tcp_info: their source does not have it",
            ],
            Some("allow netlink, or BPF (`sockeye doctor`)".to_owned()),
        );
        add(
            "left_out",
            seen.left_out,
            &socket_rules,
            [
                "socket that did not fit into the tables of check",
                "sockets that did not fit into the tables of check",
            ],
            Some("narrow it by a filter".to_owned()),
        );
        let proc_rules: Vec<Rule> = [of(Scope::Namespace), of(Scope::Host)].concat();
        add(
            "proc",
            u64::from(proc_mount::problem().is_some()),
            &proc_rules,
            [
                "",
                "/proc is not usable: counters, devices, settings and open files could not be read",
            ],
            Some("mount -t proc proc /proc".to_owned()),
        );
        add(
            "counters",
            self.without_counters,
            &[Rule::Counters],
            [
                "network namespace whose counters could not be read",
                "network namespaces whose counters could not be read",
            ],
            None,
        );
        let device_rules: Vec<Rule> = of(Scope::Namespace)
            .into_iter()
            .filter(|rule| !NEED_NO_DEVICES.contains(rule))
            .collect();
        add(
            "devices",
            self.without_devices,
            &device_rules,
            [
                "network namespace whose devices could not be read",
                "network namespaces whose devices could not be read",
            ],
            Some("allow netlink (route)".to_owned()),
        );
        add(
            "host",
            self.host_rules.len() as u64,
            &self.host_rules,
            ["", "figures of the host could not be read"],
            Some("mount -t proc proc /proc, or run as root".to_owned()),
        );
        add(
            "open_files",
            self.unreadable_files,
            &[Rule::OpenFiles],
            [
                "process whose open files or limit could not be read",
                "processes whose open files or limits could not be read",
            ],
            on_host("CAP_SYS_PTRACE"),
        );
        add(
            "firewall",
            self.unreadable_firewalls,
            &[Rule::FirewallDrops],
            [
                "",
                "the firewall rules (netfilter) could not be read: that one of them drops packets is not seen",
            ],
            Some(remedy("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns)),
        );
        add(
            "neighbours",
            u64::from(self.unclear_neighbours),
            &[Rule::Neighbours],
            [
                "",
                "many entries of the neighbour table are in network namespaces that could not be read, and its limit may not count them",
            ],
            on_host("CAP_SYS_ADMIN and CAP_SYS_PTRACE"),
        );
        add(
            "owners",
            losses.unreadable_processes,
            &[Rule::CloseWait, Rule::FinWait2, Rule::OpenFiles],
            [
                "process could not be read: its sockets have no owner in findings, and count with those of others",
                "processes could not be read: their sockets have no owner in findings, and count with those of others",
            ],
            on_host("CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
        );
        add(
            "second_look",
            u64::from(self.unproven),
            &[
                Rule::AcceptQueue,
                Rule::CloseWait,
                Rule::FinWait2,
                Rule::CwndFloor,
            ],
            ["", "suspicious sockets were looked at only once"],
            // A sample has no second look.
            (!self.is_recorded).then(|| "leave --second-look at its default".to_owned()),
        );
        let is_short = interval.is_some_and(|interval| interval < SHORTEST_INTERVAL);
        add(
            "interval",
            u64::from(is_short),
            &[
                Rule::ReceiverLimited,
                Rule::SendBufferLimited,
                Rule::ApplicationLimited,
                Rule::CwndFloor,
            ],
            ["", "what limits transfers cannot be seen in less than a second"],
            Some("--watch 1 or longer".to_owned()),
        );
        all
    }
}

/// Rules about limits that other network namespaces do not show.
const ON_HOST_ONLY: &[Rule] = &[Rule::TcpMemory, Rule::UdpMemory, Rule::Orphans];
/// Rules about sockets that do not need tcp_info.
const NEED_NO_INFO: &[Rule] = &[
    Rule::BacklogCapped,
    Rule::ListenerDrops,
    Rule::SynQueue,
    Rule::UdpUnread,
    Rule::EphemeralPorts,
    Rule::UdpPorts,
];
/// Rules about namespaces that do not need its devices.
const NEED_NO_DEVICES: &[Rule] = &[Rule::TimeWait, Rule::TimeWaitMax, Rule::Conntrack, Rule::Counters];
/// Shares of a shorter time say nothing: a transfer pauses and bursts.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(900);
