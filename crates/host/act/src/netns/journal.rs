//! A journal of unfinished changes, from which a watchdog process cleans up if we are killed in the middle.
//!
//! It has one slot per thread, in a memory file that both processes have open:
//!
//! ```text
//! u8 state; u8 name_len; u8 pad[6]; u64 inode; u8 name[255];     512 bytes per slot
//! ```

use super::leftover;
use super::unmount::unmount_name;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use sockeye_model::NetnsName;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The journal with the slots of all threads.
#[derive(Debug)]
pub struct Journal {
    file: OwnedFd,
}

/// The slot of one thread. An entry stays until the change is finished.
#[derive(Debug)]
pub struct Slot<'a> {
    journal: Option<&'a Journal>,
    offset: u64,
}

impl Journal {
    /// Creates an empty journal.
    ///
    /// # Errors
    /// The errno of `memfd_create(2)`.
    pub fn new() -> Result<Self, Errno> {
        let file = memfd_create(c"sockeye-netns", MemfdFlags::CLOEXEC)?;
        Ok(Self { file })
    }

    /// Opens the journal in a file of another process.
    #[must_use]
    pub const fn from_file(file: OwnedFd) -> Self {
        Self { file }
    }

    /// Returns the file, to pass to the watchdog process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the slot of the thread with this index.
    #[must_use]
    pub fn slot(&self, thread: usize) -> Slot<'_> {
        Slot {
            journal: Some(self),
            offset: thread as u64 * SLOT_BYTES as u64,
        }
    }

    /// Cleans up what was unfinished when its writer was killed: removes names that were half created or half deleted.
    ///
    /// # Errors
    /// The first errno; the remaining slots are processed as well.
    pub fn recover(&self) -> Result<(), Errno> {
        let mut outcome = Ok(());
        let mut slot = [0; SLOT_BYTES];
        for offset in (0..).step_by(SLOT_BYTES) {
            if pread(&self.file, &mut slot[..], offset)? == 0 {
                break;
            }
            let Some((state, inode, name)) = read(&slot) else {
                continue;
            };
            let path = name.path();
            let done = match state {
                // The file may belong to another process that is creating it now.
                MAKING => leftover::clear(&path).map(drop),
                MADE_FILE => leftover::clear_inode(&path, inode),
                REMOVING => unmount_name(&path),
                _ => Ok(()),
            };
            outcome = outcome.and(done);
        }
        outcome
    }
}

impl Slot<'_> {
    /// A slot without a journal, for use without a watchdog.
    pub const NONE: Slot<'static> = Slot {
        journal: None,
        offset: 0,
    };

    /// Records that a file for this name will be created.
    pub(super) fn making(&self, name: &NetnsName) {
        self.begin(MAKING, name);
    }

    /// Records that the file exists and has this inode.
    pub(super) fn made_file(&self, inode: u64) {
        let mut head = [0; 16];
        head[0] = MADE_FILE;
        head[8..].copy_from_slice(&inode.to_ne_bytes());
        // The state is written last: until then the old entry is still correct.
        self.write(8, &head[8..]);
        self.write(0, &head[..1]);
    }

    /// Records that the name will be removed.
    pub(super) fn removing(&self, name: &NetnsName) {
        self.begin(REMOVING, name);
    }

    /// Records that the change is finished.
    pub(super) fn done(&self) {
        self.write(0, &[IDLE]);
    }

    fn begin(&self, state: u8, name: &NetnsName) {
        let name = name.as_os_str().as_bytes();
        let mut slot = [0; SLOT_BYTES];
        slot[0] = state;
        slot[1] = u8::try_from(name.len()).unwrap_or_default();
        slot[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
        self.write(0, &slot);
    }

    /// Writes to the slot. Errors are ignored: the change goes on without a journal.
    fn write(&self, at: u64, bytes: &[u8]) {
        if let Some(journal) = self.journal {
            let _ = pwrite(&journal.file, bytes, self.offset + at);
        }
    }
}

fn read(slot: &[u8; SLOT_BYTES]) -> Option<(u8, u64, NetnsName)> {
    let inode = u64::from_ne_bytes(*slot[8..].first_chunk()?);
    let name = &slot[NAME_AT..NAME_AT + usize::from(slot[1])];
    let name = NetnsName::of_file(OsString::from_vec(name.to_vec())).ok()?;
    Some((slot[0], inode, name))
}

const IDLE: u8 = 0;
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
        let offsets = (0..).step_by(SLOT_BYTES);
        let found = offsets.map_while(|offset| {
            let got = pread(&journal.file, &mut slot[..], offset).unwrap();
            (got > 0).then(|| read(&slot).map(|(state, inode, name)| (state, inode, name.to_string())))
        });
        found.collect()
    }

    #[test]
    fn slots_show_the_state_of_each_thread() {
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
        assert!(slots(&journal).iter().flatten().all(|(state, ..)| *state == IDLE));
        assert_eq!(journal.recover(), Ok(()));
        Slot::NONE.making(&NetnsName::new("web").unwrap());
    }
}
