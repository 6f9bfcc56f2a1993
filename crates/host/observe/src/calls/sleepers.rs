//! Threads that were already asleep when the observation began.

use super::programs::Programs;
use sockeye_wire::calls::{FRAMES_MAX, Sleeper};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;

/// Stacks of sleeping threads by thread id: in the kernel and in the program.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    stacks: HashMap<u32, (Vec<u64>, Vec<u64>)>,
}

impl Sleepers {
    /// Runs the BPF iterator that lists the sleeping threads in scope and records them in the map of threads.
    pub(super) fn list(programs: &Programs) -> io::Result<Self> {
        let Some(program) = &programs.sleepers else {
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
                // The kernel returns early after a while without records: read again.
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
        // Its stack does not change while it sleeps.
        let user = if self.stacks.len() < WALKED_MAX {
            walk(&sleeper)
        } else {
            Vec::from([sleeper.ip])
        };
        self.stacks.insert(sleeper.tid, (sleeper.stack, user));
    }

    /// Returns the stack of a thread: in the kernel and in the program.
    pub(super) fn stack(&self, tid: u32) -> Option<&(Vec<u64>, Vec<u64>)> {
        self.stacks.get(&tid)
    }
}

/// Walks the user stack by frame pointers, as the kernel does: a frame has the pointer to the next frame, then the return
/// address.
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
        let [next, caller] = [0, 8].map(|offset| {
            let mut word = [0; 8];
            word.copy_from_slice(&frame[offset..offset + 8]);
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

/// The most threads whose user stack is walked; it takes some microseconds each.
const WALKED_MAX: usize = 4096;
