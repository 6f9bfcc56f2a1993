//! Reads the rules of nf_tables. Only the initial user namespace's CAP_NET_ADMIN, or that of the network namespace's
//! owner, may read them. Rules of `iptables-legacy` are not visible there.

use crate::dump::{DumpStatus, run_here};
use crate::outcome::Reason;
use rustix::io::Errno;
use sockeye_model::{Expression, Firewall, FirewallChain, FirewallRule};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::nf_tables::{Chain, Elements, Family, Rule, Verdict};
use std::collections::HashMap;

/// Returns whether the rules of the calling thread's network namespace may be read. A kernel without nf_tables has none.
#[must_use]
pub fn may_read_firewall() -> bool {
    let Ok(socket) = NetlinkSocket::open_netfilter() else {
        return true;
    };
    let status = run_here(&socket, &Chain::dump(1), 1, &mut Vec::new(), &mut |_| {});
    !is_forbidden(&status)
}

fn is_forbidden(status: &DumpStatus) -> bool {
    matches!(
        status.failure,
        Some(Reason::Refused(Errno::PERM | Errno::ACCESS, _))
    )
}

/// Reads the rules of the calling thread's network namespace; `None` if they cannot be read.
#[must_use]
pub fn firewall() -> Option<Firewall> {
    let socket = NetlinkSocket::open_netfilter().ok()?;
    let mut buffer = Vec::new();
    let mut firewall = Firewall::default();
    let status = run_here(&socket, &Chain::dump(1), 1, &mut buffer, &mut |message| {
        if message.kind == Chain::MESSAGE
            && let Ok(chain) = Chain::parse(message.payload)
            && is_judged(chain.family)
            && firewall.chains.len() < CHAINS_MAX
        {
            firewall.chains.push(FirewallChain {
                family: chain.family,
                table: chain.table,
                name: chain.name,
                hook: chain.hook,
                drops: chain.policy == Verdict::Drop,
                policy_packets: chain.policy_packets,
                rules: Vec::new(),
            });
        }
    });
    if status.failure.is_some() {
        return None;
    }
    if !firewall.chains.is_empty() {
        read_rules(&socket, &mut buffer, &mut firewall)?;
        read_sets(&socket, &mut buffer, &mut firewall);
    }
    firewall.has_legacy = has_legacy();
    Some(firewall)
}

/// Whether the calling thread's network namespace has tables of `iptables-legacy` or `ip6tables-legacy` (`net/netfilter/x_tables.c`,
/// `xt_table_seq_show()`).
fn has_legacy() -> bool {
    let files = ["ip_tables_names", "ip6_tables_names"];
    let mut texts = files
        .iter()
        .filter_map(|file| std::fs::read(format!("/proc/thread-self/net/{file}")).ok());
    texts.any(|text| !text.is_empty())
}

fn read_rules(socket: &NetlinkSocket, buffer: &mut Vec<u8>, firewall: &mut Firewall) -> Option<()> {
    let names = firewall.chains.iter().zip(0..).map(|(chain, index)| {
        let name = (chain.family, chain.table.clone(), chain.name.clone());
        (name, index)
    });
    let names: HashMap<_, usize> = names.collect();
    let mut is_whole = true;
    let mut count = 0;
    let status = run_here(socket, &Rule::dump(2), 2, buffer, &mut |message| {
        if message.kind != Rule::MESSAGE {
            return;
        }
        let Ok(rule) = Rule::parse(message.payload) else {
            is_whole = false;
            return;
        };
        let chain = names.get(&(rule.family, rule.table, rule.chain));
        if let Some(chain) = chain.and_then(|&index| firewall.chains.get_mut(index)) {
            count += 1;
            is_whole &= count <= RULES_MAX;
            if count <= RULES_MAX {
                chain.rules.push(FirewallRule {
                    handle: rule.handle,
                    expressions: rule.expressions,
                });
            }
        }
    });
    // With a part of the rules alone a packet may seem to be dropped that another rule accepts.
    (is_whole && status.failure.is_none() && !status.interrupted).then_some(())
}

/// Reads the sets that rules look into. One that cannot be read is missing: it may hold anything.
fn read_sets(socket: &NetlinkSocket, buffer: &mut Vec<u8>, firewall: &mut Firewall) {
    let mut wanted = Vec::new();
    for chain in &firewall.chains {
        for rule in &chain.rules {
            for expression in &rule.expressions {
                if let Expression::Lookup {
                    set, is_map, decides, ..
                } = expression
                    && (*decides || !is_map)
                {
                    let key = (chain.family, chain.table.clone(), set.clone());
                    if wanted.len() < SETS_MAX && !wanted.contains(&key) {
                        wanted.push(key);
                    }
                }
            }
        }
    }
    for (key, sequence) in wanted.into_iter().zip(3..) {
        let (family, table, set) = &key;
        let Some(request) = Elements::dump(*family, table, set, sequence) else {
            continue;
        };
        let mut elements = Vec::new();
        let mut is_whole = true;
        let status = run_here(socket, &request, sequence, buffer, &mut |message| {
            if message.kind == Elements::MESSAGE {
                match Elements::parse(message.payload) {
                    Ok(Elements(more)) if elements.len() < ELEMENTS_MAX => elements.extend(more),
                    _ => is_whole = false,
                }
            }
        });
        if is_whole && status.failure.is_none() && !status.interrupted {
            firewall.sets.insert(key, elements);
        }
    }
}

fn is_judged(family: Family) -> bool {
    matches!(
        family,
        Family::INET | Family::IP | Family::IP6 | Family::ARP | Family::NETDEV | Family::BRIDGE
    )
}

/// Chains, rules, sets, and elements of a set that are read. With more nothing is concluded from what was not read.
const CHAINS_MAX: usize = 100_000;
const RULES_MAX: usize = 100_000;
const SETS_MAX: usize = 200;
const ELEMENTS_MAX: usize = 20_000;
