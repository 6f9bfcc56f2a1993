//! Remedies of findings as they are typed here: in the network namespace that a finding is about.

use crate::context::QueryContext;
use crate::namespaces::NetnsAccess;
use sockeye_model::NetnsInode;
use sockeye_verdict::{Finding, Remedy, shell_word};
use std::collections::{BTreeSet, HashMap};

/// How a command can be run in the namespaces of findings.
#[derive(Debug, Clone, Default)]
pub struct RemedyAccess(HashMap<NetnsInode, NetnsAccess>);

impl RemedyAccess {
    /// Finds how a command can be run in each namespace of the findings.
    #[must_use]
    pub fn find(findings: &[Finding], context: &QueryContext) -> Self {
        let inodes: BTreeSet<NetnsInode> = findings.iter().filter_map(|finding| finding.netns).collect();
        let access = |inode: NetnsInode| Some((inode, context.access_to(inode)?));
        Self(inodes.into_iter().filter_map(access).collect())
    }

    /// Returns the remedies of a finding, each with whether it is a command, as it is typed here.
    #[must_use]
    pub fn remedies(&self, finding: &Finding) -> Vec<(String, bool)> {
        let remedies = finding.remedies.iter();
        let remedies: Vec<_> = remedies
            .filter_map(|remedy| self.located(remedy, finding.netns))
            .collect();
        // A command that cannot be run in the namespace is left out: here it would act on another one.
        let is_complete = remedies.len() == finding.remedies.len();
        let no_access = (!is_complete).then(|| (NO_ACCESS.to_owned(), false));
        remedies.into_iter().chain(no_access).collect()
    }

    /// Returns a remedy for a namespace; `None` if no command can be run there.
    fn located(&self, remedy: &Remedy, netns: Option<NetnsInode>) -> Option<(String, bool)> {
        let access = match netns {
            None => Some(&NetnsAccess::Here),
            Some(netns) => self.0.get(&netns),
        };
        Some(match remedy {
            Remedy::Advice(text) => ((*text).to_owned(), false),
            Remedy::Anywhere(command) => (command.clone(), true),
            Remedy::Sockeye(words) => {
                let netns = name(access?)
                    .filter(|_| !words.contains("--netns"))
                    .map_or_else(String::new, |name| format!(" --netns {name}"));
                (format!("sockeye {words}{netns}"), true)
            }
            Remedy::Inside(command) => (inside(access?, command), true),
        })
    }
}

/// Returns a command as it is typed here to run in a namespace.
#[must_use]
pub fn inside(access: &NetnsAccess, command: &str) -> String {
    match prefix(access) {
        None => command.to_owned(),
        Some(prefix) if command.contains(['|', ';', '>', '$', '*', '\'']) => {
            format!("{prefix} sh -c {}", shell_word(command))
        }
        Some(prefix) => format!("{prefix} {command}"),
    }
}

/// Returns the value of `--netns`; `None` for our own namespace.
fn name(access: &NetnsAccess) -> Option<String> {
    match access {
        NetnsAccess::Here => None,
        NetnsAccess::Named(name) => Some(shell_word(name)),
        NetnsAccess::Process(pid) => Some(pid.to_string()),
    }
}

/// Returns the words before a command that run it in the namespace; `None` for our own.
fn prefix(access: &NetnsAccess) -> Option<String> {
    match access {
        NetnsAccess::Here => None,
        NetnsAccess::Named(name) => Some(format!("sockeye ns exec {}", shell_word(name))),
        NetnsAccess::Process(pid) => Some(format!("nsenter -t {pid} -n")),
    }
}

/// Advice in place of commands for a namespace that has neither a name nor a process.
const NO_ACCESS: &str = "no command can be run there: its network namespace has no known name and no known process; \
                         sockets without an owner end by themselves";

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Pid;

    #[track_caller]
    fn check(access: Option<NetnsAccess>, remedy: &Remedy, expected: Option<&str>) {
        let netns = NetnsInode(7);
        let known = RemedyAccess(access.map(|access| (netns, access)).into_iter().collect());
        let text = known.located(remedy, Some(netns)).map(|(text, _)| text);
        assert_eq!(text.as_deref(), expected);
    }

    #[test]
    fn commands_run_in_the_namespace_of_the_finding() {
        let named = || Some(NetnsAccess::Named("web 1".to_owned()));
        let kill = Remedy::Sockeye("kill 'dport = :80'".to_owned());
        check(named(), &kill, Some("sockeye kill 'dport = :80' --netns 'web 1'"));
        check(Some(NetnsAccess::Here), &kill, Some("sockeye kill 'dport = :80'"));
        let list = Remedy::Inside("ip route".to_owned());
        check(named(), &list, Some("sockeye ns exec 'web 1' ip route"));
        check(
            Some(NetnsAccess::Process(Pid(5))),
            &Remedy::Inside("ip route | wc".to_owned()),
            Some("nsenter -t 5 -n sh -c 'ip route | wc'"),
        );
        check(None, &list, None);
        check(None, &Remedy::Advice("wait"), Some("wait"));
    }
}
