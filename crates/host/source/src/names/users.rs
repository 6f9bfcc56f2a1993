//! User names for the user column and for filters, through `SystemNames`. It reads the file directly: users
//! of LDAP and other name services have no name.

use sockeye_model::Uid;
use std::fs;

/// User names, from `/etc/passwd`.
#[derive(Debug, Default, Clone)]
pub struct Users {
    /// Sorted by uid, then in the order of the file.
    entries: Vec<(Uid, Box<str>)>,
}

impl Users {
    /// Reads the file of this host; without it no user has a name.
    pub(crate) fn read() -> Self {
        let bytes = fs::read("/etc/passwd").unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Parses the text of the file (passwd(5)).
    pub(crate) fn parse(text: &str) -> Self {
        let mut entries: Vec<_> = text
            .lines()
            .filter_map(|line| {
                // name:password:uid:gid:...
                let mut fields = line.split(':');
                let name = fields.next().filter(|name| !name.is_empty())?;
                let uid = fields.nth(1)?.parse().ok()?;
                Some((Uid(uid), Box::from(name)))
            })
            .collect();
        entries.sort_by_key(|(uid, _)| *uid);
        Self { entries }
    }

    /// Returns the name of this user; `None` if unknown.
    pub(crate) fn name(&self, uid: Uid) -> Option<&str> {
        let first = self.entries.partition_point(|(other, _)| *other < uid);
        let (found, name) = self.entries.get(first)?;
        (*found == uid).then_some(name)
    }

    /// Returns the user with this name; `None` if unknown.
    #[must_use]
    pub fn uid(&self, name: &str) -> Option<Uid> {
        let entry = self.entries.iter().find(|(_, other)| **other == *name);
        entry.map(|(uid, _)| *uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_uid_and_name() {
        let users = Users::parse(
            "root:x:0:0:root:/root:/bin/sh\n# no\n\n:x:5:5\nwww-data:x:33:33\ntoor:x:0:0\nbad:x:minus:1\n+::::::\nlast:x:4294967294:1",
        );
        assert_eq!(users.name(Uid(0)), Some("root"));
        assert_eq!(users.name(Uid(33)), Some("www-data"));
        assert_eq!(users.name(Uid(4_294_967_294)), Some("last"));
        assert_eq!(users.name(Uid(5)), None);
        assert_eq!(users.name(Uid(u32::MAX)), None);
        assert_eq!(users.uid("toor"), Some(Uid(0)));
        assert_eq!(users.uid("no-such-user"), None);
        assert_eq!(users.uid(""), None);
    }
}
