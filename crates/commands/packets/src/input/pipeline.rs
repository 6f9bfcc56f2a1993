//! Reads, decodes and analyses a capture on several threads, and returns blocks in the order of the capture.
//!
//! Each block is read by one thread, decoded by one, gets its place in the order (`route`), and is analysed by the
//! shards, each of which takes the blocks in this order. Any thread does what comes next: analysis first, then decoding, then reading,
//! so that at most [`Work::blocks_max`] blocks are in memory.

use super::digest::{Digest, Route, ShardInput};
use super::shard_work::{ReportedSegments, ShardOutput, analyze};
use sockeye_source::capture::{Block, Capture, Error};
use sockeye_trace::{Options, SHARDS, Shard};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A capture that is read and analysed by several threads.
pub(super) struct Pipeline {
    shared: Arc<Shared>,
    threads: usize,
}

/// How the blocks are worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// Threads; with one, the caller does all
    pub(super) threads: usize,
    /// Whether the shards analyse the segments; if not, blocks are returned with their segments
    pub(super) is_analyzed: bool,
    pub(super) reported: ReportedSegments,
}

/// A block that all have worked on.
pub(super) struct DoneBlock {
    pub(super) digest: Digest,
    /// Of each shard
    pub(super) outputs: Vec<ShardOutput>,
}

/// What is left when the capture is over.
pub(super) struct Remains {
    pub(super) capture: Capture,
    pub(super) shards: Vec<Shard>,
    pub(super) outcome: Result<(), Error>,
}

struct Shared {
    work: Work,
    state: Mutex<State>,
    /// There is something to do.
    has_work: Condvar,
    /// The next block is done, or the capture is over.
    has_block: Condvar,
}

struct State {
    /// `None` while a thread reads
    capture: Option<Capture>,
    is_read: bool,
    outcome: Result<(), Error>,
    /// Blocks read so far
    blocks: u64,
    to_decode: VecDeque<(u64, Block)>,
    to_route: BTreeMap<u64, Digest>,
    /// `None` while a thread uses it
    route: Option<Box<Route>>,
    routed: u64,
    queues: [VecDeque<(u64, ShardInput)>; SHARDS],
    /// `None` while a thread uses it
    shards: [Option<Shard>; SHARDS],
    pending: BTreeMap<u64, PendingBlock>,
    /// Blocks returned so far
    returned: u64,
    is_stopped: bool,
    free_blocks: Vec<Block>,
    free_digests: Vec<Digest>,
}

/// A block that the shards are working on.
struct PendingBlock {
    done: DoneBlock,
    missing: usize,
}

/// What a thread does next.
#[allow(clippy::large_enum_variant)] // moved a few times for each block
enum Task {
    Read(Capture, Block),
    Decode(u64, Block, Digest),
    Route(u64, Digest, Box<Route>),
    Analyze(Vec<ShardTask>),
}

struct ShardTask {
    index: usize,
    shard: Shard,
    inputs: VecDeque<(u64, ShardInput)>,
    outputs: Vec<ShardOutput>,
}

impl Pipeline {
    /// Begins to work on a capture.
    pub(super) fn start(capture: Capture, options: &Options, work: Work) -> io::Result<Self> {
        let state = State {
            capture: Some(capture),
            is_read: false,
            outcome: Ok(()),
            blocks: 0,
            to_decode: VecDeque::new(),
            to_route: BTreeMap::new(),
            route: Some(Box::default()),
            routed: 0,
            queues: std::array::from_fn(|_| VecDeque::new()),
            shards: std::array::from_fn(|_| Some(Shard::new(options))),
            pending: BTreeMap::new(),
            returned: 0,
            is_stopped: false,
            free_blocks: Vec::new(),
            free_digests: Vec::new(),
        };
        let pipeline = Self {
            shared: Arc::new(Shared {
                work,
                state: Mutex::new(state),
                has_work: Condvar::new(),
                has_block: Condvar::new(),
            }),
            threads: if work.threads > 1 { work.threads } else { 0 },
        };
        for number in 0..pipeline.threads {
            let shared = Arc::clone(&pipeline.shared);
            // Not joined: it may wait for a pipe. It ends after that when the pipeline is gone.
            thread::Builder::new()
                .name("analyze".to_owned())
                .spawn(move || shared.run(number))?;
        }
        Ok(pipeline)
    }

    /// Returns the next block; `None` at the end of the capture, or after an error of it.
    pub(super) fn next(&self) -> Option<DoneBlock> {
        let mut state = self.shared.lock();
        loop {
            if let Some(block) = state.take_done() {
                self.shared.has_work.notify_one();
                return Some(block);
            }
            if state.is_over() || state.is_stopped {
                return None;
            }
            if self.threads > 0 {
                state = wait(&self.shared.has_block, state);
            } else if let Some(task) = state.next_task(0, self.shared.work) {
                drop(state);
                let done = task.run(self.shared.work);
                state = self.shared.lock();
                state.put(done, self.shared.work);
            } else {
                // Every task is done by this thread, so one is left until the capture is over.
                return None;
            }
        }
    }

    /// Gives the memory of a block back.
    pub(super) fn reuse(&self, digest: Digest) {
        self.shared.lock().free_digests.push(digest);
    }

    /// Returns what is left after the last block; `None` if a thread has failed.
    pub(super) fn finish(self) -> Option<Remains> {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        self.shared.has_work.notify_all();
        let shards = state
            .shards
            .iter_mut()
            .map(Option::take)
            .collect::<Option<Vec<_>>>()?;
        Some(Remains {
            capture: state.capture.take()?,
            shards,
            outcome: std::mem::replace(&mut state.outcome, Ok(())),
        })
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.has_work.notify_all();
    }
}

impl Shared {
    /// What a thread does until the capture is over.
    fn run(&self, number: usize) {
        // If the thread panics, the caller must not wait for it.
        let guard = StopGuard(self);
        let mut state = self.lock();
        loop {
            if state.is_stopped || state.is_over() {
                break;
            }
            let Some(task) = state.next_task(number, self.work) else {
                state = wait(&self.has_work, state);
                continue;
            };
            drop(state);
            let done = task.run(self.work);
            state = self.lock();
            let has_more = state.put(done, self.work);
            if has_more {
                self.has_work.notify_all();
            }
            if state.is_next_done() || state.is_over() {
                self.has_block.notify_one();
            }
        }
        drop(state);
        std::mem::forget(guard);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is complete when the lock is released, also by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops all threads when one panics.
struct StopGuard<'a>(&'a Shared);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().is_stopped = true;
        self.0.has_work.notify_all();
        self.0.has_block.notify_all();
    }
}

impl Work {
    /// Most blocks in memory.
    fn blocks_max(self) -> u64 {
        self.threads as u64 * 2 + 2
    }
}

impl State {
    /// Whether all blocks were returned.
    fn is_over(&self) -> bool {
        self.is_read && self.returned == self.blocks
    }

    fn is_next_done(&self) -> bool {
        self.pending
            .first_key_value()
            .is_some_and(|(number, block)| *number == self.returned && block.missing == 0)
    }

    fn take_done(&mut self) -> Option<DoneBlock> {
        if !self.is_next_done() {
            return None;
        }
        self.returned += 1;
        self.pending.pop_first().map(|(_, block)| block.done)
    }

    fn next_task(&mut self, number: usize, work: Work) -> Option<Task> {
        if self.route.is_some()
            && let Some(digest) = self.to_route.remove(&self.routed)
        {
            return Some(Task::Route(self.routed, digest, self.route.take()?));
        }
        let own = self.take_shards(|index| index % work.threads.max(1) == number, SHARDS);
        if !own.is_empty() {
            return Some(Task::Analyze(own));
        }
        let other = self.take_shards(|_| true, 1);
        if !other.is_empty() {
            return Some(Task::Analyze(other));
        }
        if let Some((block, bytes)) = self.to_decode.pop_front() {
            let digest = self.free_digests.pop().unwrap_or_default();
            return Some(Task::Decode(block, bytes, digest));
        }
        let is_full = self.blocks - self.returned >= work.blocks_max();
        if self.is_read || is_full {
            return None;
        }
        let block = self.free_blocks.pop().unwrap_or_default();
        Some(Task::Read(self.capture.take()?, block))
    }

    /// Takes at most `max` of these shards that have something to do.
    fn take_shards(&mut self, is_wanted: impl Fn(usize) -> bool, max: usize) -> Vec<ShardTask> {
        let mut tasks = Vec::new();
        for (index, queue) in self.queues.iter_mut().enumerate() {
            if queue.is_empty() || !is_wanted(index) {
                continue;
            }
            if let Some(shard) = self.shards[index].take() {
                tasks.push(ShardTask {
                    index,
                    shard,
                    inputs: std::mem::take(queue),
                    outputs: Vec::new(),
                });
                if tasks.len() == max {
                    break;
                }
            }
        }
        tasks
    }

    /// Stores the result of a task; returns whether there may be work for other threads.
    fn put(&mut self, done: DoneTask, work: Work) -> bool {
        match done {
            DoneTask::Read(capture, block, outcome) => {
                self.capture = Some(capture);
                let is_end = block.is_empty() || outcome.is_err();
                if is_end {
                    self.is_read = true;
                    self.outcome = outcome;
                    self.free_blocks.push(block);
                } else {
                    self.to_decode.push_back((self.blocks, block));
                    self.blocks += 1;
                }
                true
            }
            DoneTask::Decode(number, block, digest) => {
                self.free_blocks.push(block);
                self.to_route.insert(number, digest);
                // The thread goes on with it.
                number != self.routed
            }
            DoneTask::Route(number, mut digest, route) => {
                self.route = Some(route);
                self.routed = number + 1;
                let mut missing = 0;
                let mut outputs = Vec::new();
                if work.is_analyzed {
                    outputs.resize_with(SHARDS, ShardOutput::default);
                    for (queue, input) in self.queues.iter_mut().zip(&mut digest.inputs) {
                        if !input.is_empty() {
                            queue.push_back((number, std::mem::take(input)));
                            missing += 1;
                        }
                    }
                }
                let done = DoneBlock { digest, outputs };
                self.pending.insert(number, PendingBlock { done, missing });
                true
            }
            DoneTask::Analyze(tasks) => {
                for task in tasks {
                    self.shards[task.index] = Some(task.shard);
                    for ((number, input), output) in task.inputs.into_iter().zip(task.outputs) {
                        if let Some(block) = self.pending.get_mut(&number) {
                            block.missing -= 1;
                            block.done.outputs[task.index] = output;
                            // For its memory.
                            block.done.digest.inputs[task.index] = input;
                        }
                    }
                }
                // Blocks that came meanwhile wait for these shards: this thread takes its own, others the rest.
                self.queues.iter().any(|queue| !queue.is_empty())
            }
        }
    }
}

/// The result of a task.
#[allow(clippy::large_enum_variant)] // as `Task`
enum DoneTask {
    Read(Capture, Block, Result<(), Error>),
    Decode(u64, Block, Digest),
    Route(u64, Digest, Box<Route>),
    Analyze(Vec<ShardTask>),
}

impl Task {
    fn run(self, work: Work) -> DoneTask {
        match self {
            Self::Read(mut capture, mut block) => {
                let outcome = capture.next_block(&mut block);
                DoneTask::Read(capture, block, outcome)
            }
            Self::Decode(number, block, mut digest) => {
                digest.decode(&block);
                DoneTask::Decode(number, block, digest)
            }
            Self::Route(number, mut digest, mut route) => {
                route.route(&mut digest);
                DoneTask::Route(number, digest, route)
            }
            Self::Analyze(mut tasks) => {
                for task in &mut tasks {
                    for (_, input) in &mut task.inputs {
                        let output = analyze(&mut task.shard, input, work.reported);
                        task.outputs.push(output);
                    }
                }
                DoneTask::Analyze(tasks)
            }
        }
    }
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}
