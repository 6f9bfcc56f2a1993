//! Stacks in words: what folded lines and flame graphs are made of.

use crate::profile::{Frame, Profile, Space};
use std::collections::HashMap;

/// Which stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stacks {
    /// Of what ran, by samples.
    #[default]
    Cpu,
    /// Of who was off the processor, by microseconds.
    Waits,
}

/// Stacks of words: the process first, then its frames, the outermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worded {
    /// Each once.
    pub words: Vec<Word>,
    /// Places in `words`, and the weight: samples, or microseconds. Those without weight are left out.
    pub stacks: Vec<(Vec<u32>, u64)>,
    /// All weights.
    pub total: u64,
    /// How many stacks were cut at [`DEPTH_MAX`].
    pub too_deep: u64,
}

/// A word of stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Word {
    /// The name of the process or of the function; `[libc.so.6]` where only the file is known. It may hold anything.
    pub text: String,
    /// Where the function is.
    pub module: Option<String>,
    /// Whether it is the kernel's.
    pub is_kernel: bool,
}

impl Profile {
    /// Its stacks in words; None if it has no such part.
    #[must_use]
    pub fn worded(&self, which: Stacks) -> Option<Worded> {
        let mut book = Book::default();
        let frames: Vec<u32> = self.frames.iter().map(|frame| book.place(word(frame))).collect();
        let unknown = book.place(Word::plain("[unknown]"));
        let cut = book.place(Word::plain("[deeper]"));
        let none = book.place(Word::plain("[no stack]"));
        let processes: HashMap<u32, u32> = self
            .processes
            .iter()
            .map(|process| (process.pid, book.place(Word::plain(&process.name))))
            .collect();
        let mut worded = Worded::default();
        let mut add = |pid: u32, stack: &[u32], weight: u64| {
            if weight == 0 {
                return;
            }
            let process = processes.get(&pid).copied();
            let process = process.unwrap_or_else(|| book.place(Word::plain(&format!("pid {pid}"))));
            let mut words = Vec::with_capacity(stack.len().min(DEPTH_MAX) + 2);
            words.push(process);
            let place = |frame: &u32| frames.get(*frame as usize).copied().unwrap_or(unknown);
            words.extend(stack.iter().take(DEPTH_MAX).map(place));
            if stack.len() > DEPTH_MAX {
                words.push(cut);
                worded.too_deep += 1;
            }
            if stack.is_empty() {
                words.push(none);
            }
            worded.total = worded.total.saturating_add(weight);
            worded.stacks.push((words, weight));
        };
        match which {
            Stacks::Cpu => {
                for one in &self.cpu.as_ref()?.stacks {
                    add(one.pid, &one.stack, one.samples);
                }
            }
            Stacks::Waits => {
                for one in self.waits.as_ref()? {
                    add(one.pid, &one.stack, one.total_ns.div_ceil(1000));
                }
            }
        }
        worded.words = book.words;
        Some(worded)
    }
}

/// The words there are, by their places.
#[derive(Default)]
struct Book {
    words: Vec<Word>,
    places: HashMap<Word, u32>,
}

impl Book {
    fn place(&mut self, word: Word) -> u32 {
        if let Some(place) = self.places.get(&word) {
            return *place;
        }
        let place = self.words.len() as u32;
        self.words.push(word.clone());
        self.places.insert(word, place);
        place
    }
}

impl Word {
    fn plain(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

/// Places without a function are told apart by their files only: each sample has an offset of its own.
fn word(frame: &Frame) -> Word {
    let text = match (frame.function.as_deref(), frame.module.as_deref()) {
        (Some(function), _) if !function.is_empty() => function.to_owned(),
        (_, module) => unnamed(module),
    };
    Word {
        text,
        module: frame.module.clone(),
        is_kernel: frame.space == Space::Kernel,
    }
}

/// A place without a function, by the file that it is in: `[libc.so.6]`.
pub(crate) fn unnamed(module: Option<&str>) -> String {
    match module {
        Some(module) if module.starts_with('[') => module.to_owned(),
        Some(module) => format!("[{module}]"),
        None => "[unknown]".to_owned(),
    }
}

/// Frames of a stack; perf and BPF take 127 of each space.
pub const DEPTH_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cpu, CpuStack, Process, Wait};

    #[test]
    fn stacks_in_words() {
        let frame = |function: Option<&str>, module: &str, space| Frame {
            function: function.map(str::to_owned),
            module: Some(module.to_owned()),
            offset: Some(7),
            space,
        };
        let stack = |pid, stack: Vec<u32>, samples| CpuStack { pid, stack, samples };
        let profile = Profile {
            processes: vec![Process {
                pid: 7,
                name: "dd".to_owned(),
                ..Process::default()
            }],
            frames: vec![
                frame(Some("main"), "dd", Space::User),
                frame(None, "libc.so.6", Space::User),
                frame(Some("ksys_read"), "kernel", Space::Kernel),
                frame(None, "[vdso]", Space::User),
            ],
            cpu: Some(Cpu {
                stacks: vec![
                    stack(7, vec![0, 1, 2], 5),
                    stack(9, vec![3, 99], 1),
                    stack(7, vec![], 2),
                    stack(7, vec![0], 0),
                    stack(7, vec![0; DEPTH_MAX + 1], 1),
                ],
                ..Cpu::default()
            }),
            waits: Some(vec![Wait {
                pid: 7,
                total_ns: 1_500,
                ..Wait::default()
            }]),
            ..Profile::default()
        };
        let worded = profile.worded(Stacks::Cpu).unwrap();
        let lines: Vec<String> = worded
            .stacks
            .iter()
            .map(|(stack, weight)| {
                let texts: Vec<&str> = stack
                    .iter()
                    .map(|word| worded.words[*word as usize].text.as_str())
                    .collect();
                format!("{} {weight}", texts.join(";"))
            })
            .collect();
        assert_eq!(lines[0], "dd;main;[libc.so.6];ksys_read 5");
        assert_eq!(lines[1], "pid 9;[vdso];[unknown] 1");
        assert_eq!(lines[2], "dd;[no stack] 2");
        assert!(lines[3].ends_with(";main;[deeper] 1"));
        assert_eq!((lines.len(), worded.total, worded.too_deep), (4, 9, 1));
        let waits = profile.worded(Stacks::Waits).unwrap();
        assert_eq!((waits.stacks[0].1, waits.total), (2, 2));
        assert_eq!(Profile::default().worded(Stacks::Cpu), None);
    }
}
