//! What is being done this moment, for somebody who outlives us and puts it right if we are killed in the middle.
//!
//! One slot a thread, in a file without a name that both have open:
//!
//! ```text
//! u8 state; u8 name_len; u8 pad[6]; u64 inode; u8 name[255];     512 a slot
//! ```

use super::{remains, remove};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use sockeye_model::NetnsName;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The slots of all threads.
#[derive(Debug)]
pub struct Journal {
    file: OwnedFd,
}

/// The slot of one thread. What it says lasts until all is done.
#[derive(Debug)]
pub struct Slot<'a> {
    journal: Option<&'a Journal>,
    place: u64,
}

impl Journal {
    /// An empty one.
    ///
    /// # Errors
    /// The errno of `memfd_create(2)`.
    pub fn new() -> Result<Self, Errno> {
        let file = memfd_create(c"sockeye-netns", MemfdFlags::CLOEXEC)?;
        Ok(Self { file })
    }

    /// Over the file that another process keeps it in.
    #[must_use]
    pub const fn of_another(file: OwnedFd) -> Self {
        Self { file }
    }

    /// The file, to be handed to whoever shall outlive us.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The slot of the thread with this number.
    #[must_use]
    pub fn slot(&self, thread: usize) -> Slot<'_> {
        Slot {
            journal: Some(self),
            place: thread as u64 * SLOT_BYTES as u64,
        }
    }

    /// Puts right what was in the middle when its writer was killed: names half made go, names half deleted too.
    ///
    /// # Errors
    /// The first errno; it goes on after it.
    pub fn put_right(&self) -> Result<(), Errno> {
        let mut outcome = Ok(());
        let mut slot = [0; SLOT_BYTES];
        for place in (0..).step_by(SLOT_BYTES) {
            if pread(&self.file, &mut slot[..], place)? == 0 {
                break;
            }
            let Some((state, inode, name)) = read(&slot) else {
                continue;
            };
            let path = name.path();
            let done = match state {
                // Perhaps the file is another's, who is just making it.
                MAKING => remains::clear(&path).map(drop),
                MADE_FILE => remains::clear_inode(&path, inode),
                REMOVING => remove::finish(&path),
                _ => Ok(()),
            };
            outcome = outcome.and(done);
        }
        outcome
    }
}

impl Slot<'_> {
    /// For those whom nobody outlives.
    pub const NONE: Slot<'static> = Slot {
        journal: None,
        place: 0,
    };

    /// A file will be made for this name.
    pub(super) fn making(&self, name: &NetnsName) {
        self.begin(MAKING, name);
    }

    /// It is made, and has this inode.
    pub(super) fn made_file(&self, inode: u64) {
        let mut head = [0; 16];
        head[0] = MADE_FILE;
        head[8..].copy_from_slice(&inode.to_ne_bytes());
        // The state last: until then the slot says less, and nothing wrong.
        self.write(8, &head[8..]);
        self.write(0, &head[..1]);
    }

    /// The name will be removed.
    pub(super) fn removing(&self, name: &NetnsName) {
        self.begin(REMOVING, name);
    }

    /// All is as it should be.
    pub(super) fn done(&self) {
        self.write(0, &[NOTHING]);
    }

    fn begin(&self, state: u8, name: &NetnsName) {
        let name = name.as_os_str().as_bytes();
        let mut slot = [0; SLOT_BYTES];
        slot[0] = state;
        slot[1] = u8::try_from(name.len()).unwrap_or_default();
        slot[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
        self.write(0, &slot);
    }

    /// That nobody will read it is no reason not to act.
    fn write(&self, at: u64, bytes: &[u8]) {
        if let Some(journal) = self.journal {
            let _ = pwrite(&journal.file, bytes, self.place + at);
        }
    }
}

fn read(slot: &[u8; SLOT_BYTES]) -> Option<(u8, u64, NetnsName)> {
    let inode = u64::from_ne_bytes(*slot[8..].first_chunk()?);
    let name = &slot[NAME_AT..NAME_AT + usize::from(slot[1])];
    let name = NetnsName::of_file(OsString::from_vec(name.to_vec())).ok()?;
    Some((slot[0], inode, name))
}

const NOTHING: u8 = 0;
const MAKING: u8 = 1;
const MADE_FILE: u8 = 2;
const REMOVING: u8 = 3;
const NAME_AT: usize = 16;
const SLOT_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(journal: &Journal) -> Vec<Option<(u8, u64, String)>> {
        let mut slot = [0; SLOT_BYTES];
        let places = (0..).step_by(SLOT_BYTES);
        let found = places.map_while(|place| {
            let got = pread(&journal.file, &mut slot[..], place).unwrap();
            (got > 0).then(|| read(&slot).map(|(state, inode, name)| (state, inode, name.to_string())))
        });
        found.collect()
    }

    #[test]
    fn each_thread_says_where_it_is() {
        let journal = Journal::new().unwrap();
        assert!(slots(&journal).is_empty());
        let long = "x".repeat(255);
        let [first, second] = [0, 1].map(|thread| journal.slot(thread));
        second.making(&NetnsName::new(&long).unwrap());
        assert_eq!(slots(&journal), [None, Some((MAKING, 0, long.clone()))]);
        second.made_file(7);
        first.removing(&NetnsName::new("web").unwrap());
        let expected = [
            Some((REMOVING, 0, "web".to_owned())),
            Some((MADE_FILE, 7, long.clone())),
        ];
        assert_eq!(slots(&journal), expected);
        first.done();
        second.done();
        assert!(
            slots(&journal)
                .iter()
                .flatten()
                .all(|(state, ..)| *state == NOTHING)
        );
        assert_eq!(journal.put_right(), Ok(()));
        Slot::NONE.making(&NetnsName::new("web").unwrap());
    }
}
