//! Names of network namespaces, as a recorder knew them. An inode is given to another namespace when its first one is gone, so that a
//! name of today says nothing about last night.

use crate::bytes::{DecodeError, Reader, push_number, push_text};
use sockeye_model::NetnsInode;

/// A network namespace and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetnsName {
    /// Its inode.
    pub netns: NetnsInode,
    /// The name that a user gave it, else that of its container, or of its first process.
    pub name: String,
}

impl NetnsName {
    /// Returns names as bytes.
    #[must_use]
    pub fn encode<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<u8> {
        let mut out = Vec::new();
        for Self { netns, name } in all {
            push_number(&mut out, netns.0.into());
            push_text(&mut out, name.as_bytes());
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
            let netns = NetnsInode(reader.small("a namespace")?);
            let name = String::from_utf8_lossy(reader.text("the name of a namespace")?);
            all.push(Self {
                netns,
                name: name.into_owned(),
            });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        let all = [
            (4_026_531_840, "web"),
            (7, ""),
            (u32::MAX, "1234/nginx \u{1f418}"),
        ]
        .map(|(netns, name)| NetnsName {
            netns: NetnsInode(netns),
            name: name.to_owned(),
        });
        let bytes = NetnsName::encode(&all);
        assert_eq!(NetnsName::decode(&bytes).unwrap(), all);
        assert_eq!(NetnsName::decode(&[]).unwrap(), []);
        for len in 1..bytes.len() {
            // A part is read as fewer names, or not at all.
            assert!(NetnsName::decode(&bytes[..len]).map_or(true, |part| part.len() < all.len()));
        }
    }
}
