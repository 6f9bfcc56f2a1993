//! Translates stacks of addresses into stacks of frames, each distinct frame once.

use crate::{FileNumber, Incarnation, Processes, RawStack, Symbols};
use foldhash::HashMap;
use sockeye_profile::Frame;

/// The distinct frames so far; an index stays valid.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    all: Vec<Frame>,
    indices: HashMap<Frame, u32>,
    /// Cached indices by address in a file.
    in_files: HashMap<(FileNumber, u64), u32>,
    /// Cached indices by kernel address.
    in_kernel: HashMap<u64, u32>,
}

impl Frames {
    /// Returns the frame indices of a stack, the outermost first: the process's frames, then the kernel's.
    pub(crate) fn stack(
        &mut self,
        process: Incarnation,
        raw: &RawStack,
        processes: &Processes,
        symbols: &mut Symbols,
    ) -> Vec<u32> {
        let mut indices = Vec::with_capacity(raw.user.len() + raw.kernel.len());
        for (depth, address) in raw.user.iter().enumerate().rev() {
            indices.push(self.user(process, called_from(*address, depth), processes, symbols));
        }
        for (depth, address) in raw.kernel.iter().enumerate().rev() {
            indices.push(self.kernel(called_from(*address, depth), symbols));
        }
        indices
    }

    /// Returns the stack of a wait without the frames of the tracepoint and BPF program that recorded it, which are above
    /// `__schedule`.
    pub(crate) fn of_wait(raw: &RawStack, symbols: &mut Symbols) -> RawStack {
        let mut innermost = raw.kernel.iter().take(RECORDING_FRAMES_MAX).enumerate();
        let schedule = innermost.find(|(depth, address)| {
            let frame = symbols.kernel(called_from(**address, *depth));
            frame.function.as_deref() == Some("__schedule")
        });
        let recording = schedule.map_or(0, |(depth, _)| depth);
        RawStack {
            kernel: raw.kernel.get(recording..).unwrap_or_default().to_vec(),
            user: raw.user.clone(),
        }
    }

    /// Returns the names of the kernel functions in a stack, the innermost first.
    pub(crate) fn kernel_functions(&mut self, raw: &RawStack, symbols: &mut Symbols) -> Vec<&str> {
        let indices: Vec<u32> = raw
            .kernel
            .iter()
            .enumerate()
            .map(|(depth, address)| self.kernel(called_from(*address, depth), symbols))
            .collect();
        indices
            .into_iter()
            .filter_map(|index| self.all.get(index as usize)?.function.as_deref())
            .collect()
    }

    /// Returns all frames so far, by index.
    pub(crate) fn all(&self) -> &[Frame] {
        &self.all
    }

    fn user(
        &mut self,
        process: Incarnation,
        address: u64,
        processes: &Processes,
        symbols: &mut Symbols,
    ) -> u32 {
        let Some((file, offset)) = processes.locate(process, address) else {
            // A broken stack walk gives arbitrary addresses: one frame for all of them.
            return self.index_of(Frame::default());
        };
        if let Some(index) = self.in_files.get(&(file, offset)) {
            return *index;
        }
        let index = self.index_of(symbols.user(file, offset));
        if self.in_files.len() < ADDRESSES_MAX {
            self.in_files.insert((file, offset), index);
        }
        index
    }

    fn kernel(&mut self, address: u64, symbols: &mut Symbols) -> u32 {
        if let Some(index) = self.in_kernel.get(&address) {
            return *index;
        }
        let index = self.index_of(symbols.kernel(address));
        if self.in_kernel.len() < ADDRESSES_MAX {
            self.in_kernel.insert(address, index);
        }
        index
    }

    fn index_of(&mut self, frame: Frame) -> u32 {
        if let Some(index) = self.indices.get(&frame) {
            return *index;
        }
        let index = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(frame.clone());
        self.indices.insert(frame, index);
        index
    }
}

/// Returns an address inside the call instruction. Return addresses point behind the call, possibly to the next function;
/// the innermost address is no return address.
const fn called_from(address: u64, depth: usize) -> u64 {
    if depth == 0 {
        address
    } else {
        address.wrapping_sub(1)
    }
}

/// The most frames of the tracepoint and BPF program in the stack of a context switch.
const RECORDING_FRAMES_MAX: usize = 12;

/// The most cached addresses; others are looked up again each time.
const ADDRESSES_MAX: usize = 1 << 20;
