//! Threads that slept already when we began.

use super::load::Attached;
use sockeye_wire::calls::{FRAMES_MAX, Sleeper};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;

/// Where they slept, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    stacks: HashMap<u32, (Vec<u64>, Vec<u64>)>,
}

impl Sleepers {
    /// Has the kernel list those in scope, and note in its map of threads that they sleep.
    pub(super) fn list(attached: &Attached) -> io::Result<Self> {
        let Some(program) = &attached.sleepers else {
            return Ok(Self::default());
        };
        let mut iteration = program.iterate()?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut found = Self::default();
        loop {
            match iteration.read(&mut buffer) {
                Ok(0) => return Ok(found),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                // The kernel breaks off after a while without records, to be asked again.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
            let whole = bytes.len() - bytes.len() % Sleeper::BYTES;
            for record in bytes[..whole].chunks_exact(Sleeper::BYTES) {
                if let Some(sleeper) = Sleeper::read(record) {
                    found.add(sleeper);
                }
            }
            bytes.drain(..whole);
        }
    }

    fn add(&mut self, sleeper: Sleeper) {
        // While it sleeps, its stack stays as it is.
        let user = if self.stacks.len() < WALKED_MAX {
            walk(&sleeper)
        } else {
            Vec::from([sleeper.ip])
        };
        self.stacks.insert(sleeper.tid, (sleeper.stack, user));
    }

    /// Where it slept: in the kernel, and in its own program.
    pub(super) fn stack(&self, tid: u32) -> Option<&(Vec<u64>, Vec<u64>)> {
        self.stacks.get(&tid)
    }
}

/// The stack of its own program, by frame pointers, as the kernel walks it: each points at the next and, behind that, at
/// where the caller goes on.
fn walk(sleeper: &Sleeper) -> Vec<u64> {
    let mut frames = Vec::new();
    if sleeper.ip == 0 {
        return frames;
    }
    frames.push(sleeper.ip);
    let Ok(memory) = File::open(format!("/proc/{}/mem", sleeper.tgid)) else {
        return frames;
    };
    let (mut at, mut lowest) = (sleeper.bp, sleeper.sp);
    while frames.len() < FRAMES_MAX && at >= lowest && at % 8 == 0 {
        let mut frame = [0; 16];
        if memory.read_exact_at(&mut frame, at).is_err() {
            break;
        }
        let [next, caller] = [0, 8].map(|place| {
            let mut word = [0; 8];
            word.copy_from_slice(&frame[place..place + 8]);
            u64::from_ne_bytes(word)
        });
        if caller == 0 {
            break;
        }
        frames.push(caller);
        lowest = at.saturating_add(16);
        at = next;
    }
    frames
}

const BUFFER_BYTES: usize = 64 * 1024;

/// Of so many threads the stack in their own program is walked; it takes some microseconds each.
const WALKED_MAX: usize = 4096;
