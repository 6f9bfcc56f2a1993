//! Stacks of addresses become stacks of names, each name once.

use crate::{FileNumber, Incarnation, Processes, RawStack, Symbols};
use foldhash::HashMap;
use sockeye_profile::Frame;

/// Frames that stacks were made of so far; their places stay the same.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    all: Vec<Frame>,
    places: HashMap<Frame, u32>,
    /// Addresses that were asked about before.
    in_files: HashMap<(FileNumber, u64), u32>,
    in_kernel: HashMap<u64, u32>,
}

impl Frames {
    /// A stack's frames by their places, the outermost first, the kernel's behind the process's own.
    pub(crate) fn stack(
        &mut self,
        of: Incarnation,
        raw: &RawStack,
        processes: &Processes,
        symbols: &mut Symbols,
    ) -> Vec<u32> {
        let mut places = Vec::with_capacity(raw.user.len() + raw.kernel.len());
        for (depth, address) in raw.user.iter().enumerate().rev() {
            places.push(self.user(of, called_from(*address, depth), processes, symbols));
        }
        for (depth, address) in raw.kernel.iter().enumerate().rev() {
            places.push(self.kernel(called_from(*address, depth), symbols));
        }
        places
    }

    /// A stack of who left a processor, without what the kernel does to tell us of it: tracepoints and BPF lie above
    /// `__schedule`.
    pub(crate) fn of_wait(raw: &RawStack, symbols: &mut Symbols) -> RawStack {
        let mut innermost = raw.kernel.iter().take(TELLING_MAX).enumerate();
        let leaves = innermost.find(|(depth, address)| {
            let frame = symbols.kernel(called_from(**address, *depth));
            frame.function.as_deref() == Some("__schedule")
        });
        let telling = leaves.map_or(0, |(depth, _)| depth);
        RawStack {
            kernel: raw.kernel.get(telling..).unwrap_or_default().to_vec(),
            user: raw.user.clone(),
        }
    }

    /// The functions of the kernel in a stack, the innermost first.
    pub(crate) fn kernel_functions(&mut self, raw: &RawStack, symbols: &mut Symbols) -> Vec<&str> {
        let places: Vec<u32> = raw
            .kernel
            .iter()
            .enumerate()
            .map(|(depth, address)| self.kernel(called_from(*address, depth), symbols))
            .collect();
        places
            .into_iter()
            .filter_map(|place| self.all.get(place as usize)?.function.as_deref())
            .collect()
    }

    /// Every frame so far.
    pub(crate) fn all(&self) -> &[Frame] {
        &self.all
    }

    fn user(&mut self, of: Incarnation, address: u64, processes: &Processes, symbols: &mut Symbols) -> u32 {
        let Some((file, offset)) = processes.place(of, address) else {
            // Where a stack went astray, every address is another one.
            return self.place(Frame::default());
        };
        if let Some(place) = self.in_files.get(&(file, offset)) {
            return *place;
        }
        let place = self.place(symbols.user(file, offset));
        if self.in_files.len() < ADDRESSES_MAX {
            self.in_files.insert((file, offset), place);
        }
        place
    }

    fn kernel(&mut self, address: u64, symbols: &mut Symbols) -> u32 {
        if let Some(place) = self.in_kernel.get(&address) {
            return *place;
        }
        let place = self.place(symbols.kernel(address));
        if self.in_kernel.len() < ADDRESSES_MAX {
            self.in_kernel.insert(address, place);
        }
        place
    }

    fn place(&mut self, frame: Frame) -> u32 {
        if let Some(place) = self.places.get(&frame) {
            return *place;
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(frame.clone());
        self.places.insert(frame, place);
        place
    }
}

/// But for the innermost, addresses are those behind the call, which may be the first of another function.
const fn called_from(address: u64, depth: usize) -> u64 {
    if depth == 0 {
        address
    } else {
        address.wrapping_sub(1)
    }
}

/// Frames that telling of a switch takes: the tracepoint's, BPF's own.
const TELLING_MAX: usize = 12;

/// So many addresses are kept with their names; others are looked up again.
const ADDRESSES_MAX: usize = 1 << 20;
