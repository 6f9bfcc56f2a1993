//! Chains.

use super::{FIXED_LEN, Family, SUBSYSTEM, Verdict, be_u32, be_u64, header, name};
use crate::bytes::split_fixed;
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::string::String;
use alloc::vec::Vec;

/// A list of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The packets that its table sees
    pub family: Family,
    /// Its table
    pub table: String,
    /// Its name
    pub name: String,
    /// Where packets enter it; `None` if only other chains jump to it
    pub hook: Option<Hook>,
    /// What becomes of packets that no rule decides about
    pub policy: Verdict,
    /// Packets that the policy decided about; `None` if the chain has no counter
    pub policy_packets: Option<u64>,
}

/// Where packets enter a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// `NF_INET_PRE_ROUTING` 0, `LOCAL_IN` 1, `FORWARD` 2, `LOCAL_OUT` 3, `POST_ROUTING` 4, `INGRESS` 5; `NF_ARP_IN` 0,
    /// `OUT` 1; `NF_NETDEV_INGRESS` 0, `EGRESS` 1
    pub number: u32,
    /// Chains with a lower number come first.
    pub priority: i32,
    /// The interfaces whose packets enter it; empty for those of all
    pub devices: Vec<String>,
}

impl Chain {
    /// Parses the payload of an [`NFT_MSG_NEWCHAIN`](Self::MESSAGE).
    ///
    /// # Errors
    /// When it is shorter than `struct nfgenmsg`, or an attribute's header is broken.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<FIXED_LEN>(payload, Layer::NfTables)?;
        let mut chain = Self {
            family: Family(fixed[0]),
            table: String::new(),
            name: String::new(),
            hook: None,
            policy: Verdict::Accept,
            policy_packets: None,
        };
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                NFTA_CHAIN_TABLE => chain.table = name(&attribute),
                NFTA_CHAIN_NAME => chain.name = name(&attribute),
                NFTA_CHAIN_HOOK => chain.hook = Hook::parse(attribute.payload),
                NFTA_CHAIN_POLICY if be_u32(&attribute) == Some(0) => chain.policy = Verdict::Drop,
                NFTA_CHAIN_COUNTERS => {
                    let mut parts = Attributes::new(attribute.payload).flatten();
                    chain.policy_packets = parts
                        .find(|part| part.kind == NFTA_COUNTER_PACKETS)
                        .and_then(|part| be_u64(&part));
                }
                _ => {}
            }
        }
        Ok(chain)
    }

    /// Returns a request for all chains.
    #[must_use]
    pub fn dump(sequence: u32) -> Vec<u8> {
        let request = Request::dump(SUBSYSTEM | NFT_MSG_GETCHAIN, sequence);
        request.payload(&header(Family(0))).finish()
    }

    /// `NFT_MSG_NEWCHAIN`: the answer to [`dump`](Self::dump)
    pub const MESSAGE: u16 = SUBSYSTEM | 3;
}

impl Hook {
    fn parse(nest: &[u8]) -> Option<Self> {
        let (mut number, mut priority) = (None, None);
        let mut devices = Vec::new();
        for part in Attributes::new(nest).flatten() {
            match part.kind {
                NFTA_HOOK_HOOKNUM => number = be_u32(&part),
                NFTA_HOOK_PRIORITY => priority = be_u32(&part).map(u32::cast_signed),
                NFTA_HOOK_DEV => devices.push(name(&part)),
                NFTA_HOOK_DEVS => {
                    let all = Attributes::new(part.payload).flatten();
                    devices.extend(
                        all.filter(|part| part.kind == NFTA_DEVICE_NAME)
                            .map(|part| name(&part)),
                    );
                }
                _ => {}
            }
        }
        Some(Self {
            number: number?,
            priority: priority?,
            devices,
        })
    }
}

const NFT_MSG_GETCHAIN: u16 = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_COUNTERS: u16 = 8;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_HOOK_DEVS: u16 = 4;
const NFTA_DEVICE_NAME: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;

#[cfg(test)]
mod tests {
    use super::super::testing::{attribute, message};
    use super::*;

    #[test]
    fn chains_are_parsed() {
        let hook = [
            attribute(NFTA_HOOK_HOOKNUM, &3_u32.to_be_bytes()),
            attribute(NFTA_HOOK_PRIORITY, &(-150_i32).to_be_bytes()),
            attribute(NFTA_HOOK_DEVS, &attribute(NFTA_DEVICE_NAME, b"eth0\0")),
        ];
        let bytes = message(
            1,
            &[
                attribute(NFTA_CHAIN_TABLE, b"filter\0"),
                attribute(NFTA_CHAIN_NAME, b"out\0"),
                attribute(NFTA_CHAIN_HOOK, &hook.concat()),
                attribute(NFTA_CHAIN_POLICY, &0_u32.to_be_bytes()),
                attribute(
                    NFTA_CHAIN_COUNTERS,
                    &attribute(NFTA_COUNTER_PACKETS, &7_u64.to_be_bytes()),
                ),
            ],
        );
        let chain = Chain::parse(&bytes).unwrap();
        assert_eq!((&*chain.table, &*chain.name), ("filter", "out"));
        let hook = Hook {
            number: 3,
            priority: -150,
            devices: alloc::vec!["eth0".into()],
        };
        assert_eq!(chain.hook, Some(hook));
        assert_eq!((chain.policy, chain.policy_packets), (Verdict::Drop, Some(7)));
        assert!(Chain::parse(&bytes[..3]).is_err());
        assert!(Chain::parse(&[1, 0, 0, 0, 200, 0, 1, 0]).is_err());
    }
}
