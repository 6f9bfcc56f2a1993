//! Files that combinations name: a filter, saved dumps.

use super::socket_set::SocketSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub(crate) struct Files {
    /// A filter in a file.
    pub(crate) filter: PathBuf,
    /// What the real ss saved with `-D`, whole and broken.
    pub(crate) dumps: Vec<(&'static str, PathBuf)>,
    /// The same many times over.
    pub(crate) big_dump: PathBuf,
}

impl Files {
    pub(crate) fn new(socket_set: &SocketSet) -> Self {
        let filter = socket_set.file("filter");
        fs::write(&filter, "# in a file\n( sport = 22 or\n  sport = 443 )\n").unwrap();
        let whole = socket_set.file("dump");
        let mut save = Command::new(sockeye_lab::program("ss").unwrap());
        save.args(["-ta", "-D"]).arg(&whole);
        socket_set.here.run(|| sockeye_lab::output_of(save));
        let bytes = fs::read(&whole).unwrap();
        let mut dumps = vec![("whole", whole)];
        let mut named = |name: &'static str, bytes: &[u8]| {
            let path = socket_set.file(&format!("dump-{name}"));
            fs::write(&path, bytes).unwrap();
            dumps.push((name, path));
        };
        named("empty", b"");
        named("cut in a message", &bytes[..bytes.len() / 2 + 7]);
        named("cut in a header", &bytes[..10]);
        dumps.push(("missing", socket_set.file("missing")));

        let messages: Vec<&[u8]> = messages(&bytes).filter(|message| message[4] != DONE).collect();
        let mut big = Vec::new();
        while big.len() < BIG {
            messages.iter().for_each(|message| big.extend_from_slice(message));
        }
        big.extend(20u32.to_ne_bytes());
        big.extend([DONE, 0]);
        big.extend([0; 14]);
        let big_dump = socket_set.file("dump-big");
        fs::write(&big_dump, big).unwrap();
        Self {
            filter,
            dumps,
            big_dump,
        }
    }
}

/// `struct nlmsghdr`: length, then type; each message padded to 4 bytes.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let (message, rest) = bytes.split_at_checked(length.max(16).next_multiple_of(4))?;
        bytes = rest;
        Some(message)
    })
}

/// NLMSG_DONE
const DONE: u8 = 3;
const BIG: usize = 8 << 20;
