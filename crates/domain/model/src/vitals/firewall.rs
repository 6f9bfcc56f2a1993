//! The packet filter rules of a network namespace: `host/source/src/vitals/` reads them for connections whose packets
//! disappear, and `verdict` finds the rule that drops them.

use core::fmt;
use std::collections::HashMap;

pub use sockeye_wire::nf_tables::{
    Base, Element, Expression, Family, Hook, MetaKey, Operator, Verdict as FirewallVerdict,
};

/// The rules of nf_tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Firewall {
    /// Chains of IPv4, IPv6 and both, of ARP, and of single interfaces
    pub chains: Vec<FirewallChain>,
    /// Elements of sets, by family, table and name; only of sets that rules look into
    pub sets: HashMap<(Family, String, String), Vec<Element>>,
    /// Whether there are tables of `iptables-legacy`, whose rules are not read
    pub has_legacy: bool,
}

/// A chain with its rules.
#[derive(Debug, Clone, PartialEq)]
pub struct FirewallChain {
    /// Packets that its table sees
    pub family: Family,
    /// Its table
    pub table: String,
    /// Its name
    pub name: String,
    /// Where packets enter it; `None` if only other chains jump to it
    pub hook: Option<Hook>,
    /// Whether packets that no rule decides about are dropped
    pub drops: bool,
    /// Packets that no rule decided about; `None` without a counter
    pub policy_packets: Option<u64>,
    /// Its rules, in order
    pub rules: Vec<FirewallRule>,
}

/// A rule of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct FirewallRule {
    /// Its number, as `nft -a list chain` shows it
    pub handle: u64,
    /// What it compares and does
    pub expressions: Vec<Expression>,
}

impl Firewall {
    /// Returns the same rules without what they have counted: counters from before a drop do not show which rule it was.
    #[must_use]
    pub fn without_counters(mut self) -> Self {
        for chain in &mut self.chains {
            chain.policy_packets = None;
            for rule in &mut chain.rules {
                rule.expressions
                    .retain(|expression| !matches!(expression, Expression::Counter { .. }));
            }
        }
        self
    }
}

impl FirewallRule {
    /// Packets that it counted; `None` without a counter.
    #[must_use]
    pub fn packets(&self) -> Option<u64> {
        self.expressions.iter().find_map(|expression| match expression {
            Expression::Counter { packets } => Some(*packets),
            _ => None,
        })
    }
}

/// Names a rule, or the policy of a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FirewallRuleName {
    /// Packets that its table sees
    pub family: Family,
    /// Its table
    pub table: String,
    /// Its chain
    pub chain: String,
    /// Its number; `None`: the chain's policy
    pub handle: Option<u64>,
}

impl fmt::Display for FirewallRuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            table,
            chain,
            handle,
        } = self;
        match handle {
            Some(handle) => write!(f, "rule {handle} of chain {family} {table} {chain}"),
            None => write!(f, "the policy of chain {family} {table} {chain}"),
        }
    }
}
