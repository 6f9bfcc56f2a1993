//! Connections that NAT translates, as a recorder saw them.

use crate::bytes::{DecodeError, Reader, push_number, push_text};
use sockeye_model::{ConnectionEnds, NetnsInode, Translation};
use std::net::IpAddr;

/// A translation, and where it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeenTranslation {
    /// The network namespace that translates; `None` if only one is recorded.
    pub netns: Option<NetnsInode>,
    /// What it makes of the connection.
    pub translation: Translation,
}

impl SeenTranslation {
    /// Returns them as bytes.
    #[must_use]
    pub fn encode<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<u8> {
        let mut out = Vec::new();
        for Self { netns, translation } in all {
            push_number(&mut out, netns.map_or(0, |netns| u64::from(netns.0) + 1));
            push_number(&mut out, translation.zone.into());
            for ends in [translation.original, translation.translated] {
                push_end(&mut out, ends.client);
                push_end(&mut out, ends.server);
            }
        }
        out
    }

    /// Reads what [`Self::encode`] returned.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut all = Vec::new();
        while !reader.is_empty() {
            let netns = read_netns(&mut reader)?;
            let zone = reader.small("a zone")?;
            let mut ends = || {
                Ok(ConnectionEnds {
                    client: read_end(&mut reader)?,
                    server: read_end(&mut reader)?,
                })
            };
            let translation = Translation {
                zone,
                original: ends()?,
                translated: ends()?,
            };
            all.push(Self { netns, translation });
        }
        Ok(all)
    }
}

pub(crate) fn read_netns(reader: &mut Reader<'_>) -> Result<Option<NetnsInode>, DecodeError> {
    let number: u64 = reader.number("a namespace")?;
    let Some(inode) = number.checked_sub(1) else {
        return Ok(None);
    };
    let inode = u32::try_from(inode).map_err(|_| reader.error("a namespace"))?;
    Ok(Some(NetnsInode(inode)))
}

pub(crate) fn push_end(out: &mut Vec<u8>, (ip, port): (IpAddr, u16)) {
    match ip {
        IpAddr::V4(ip) => push_text(out, &ip.octets()),
        IpAddr::V6(ip) => push_text(out, &ip.octets()),
    }
    push_number(out, port.into());
}

pub(crate) fn read_end(reader: &mut Reader<'_>) -> Result<(IpAddr, u16), DecodeError> {
    let octets = reader.text("an address")?;
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(octets).ok().map(IpAddr::from);
    let ip = v4().or_else(v6).ok_or(reader.error("an address"))?;
    Ok((ip, reader.small("a port")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translations_survive_and_damaged_ones_are_errors() {
        let ends = |client: [u8; 4], server: IpAddr| ConnectionEnds {
            client: (client.into(), 40_000),
            server: (server, 80),
        };
        let seen = |netns, zone| SeenTranslation {
            netns,
            translation: Translation {
                zone,
                original: ends([10, 0, 0, 9], [10, 9, 0, 1].into()),
                translated: ends([10, 1, 0, 1], std::net::Ipv6Addr::LOCALHOST.into()),
            },
        };
        let all = [seen(None, 0), seen(Some(NetnsInode(u32::MAX)), 7)];
        let bytes = SeenTranslation::encode(&all);
        assert_eq!(SeenTranslation::decode(&bytes), Ok(all.to_vec()));
        let first = SeenTranslation::encode(&all[..1]).len();
        for len in (1..bytes.len()).filter(|len| *len != first) {
            assert!(SeenTranslation::decode(&bytes[..len]).is_err(), "{len}");
        }
    }
}
