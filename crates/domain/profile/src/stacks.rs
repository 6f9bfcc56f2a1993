//! Stacks with names, for folded lines and flame graphs.

use crate::profile::{Frame, Profile, Space};
use std::collections::HashMap;

/// A kind of stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StackKind {
    /// Stacks that ran, weighted by samples.
    #[default]
    Cpu,
    /// Stacks that waited, weighted by microseconds.
    Waits,
}

/// Stacks by names: the process first, then its frames, outermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedStacks {
    /// Distinct names.
    pub words: Vec<StackName>,
    /// Indices into `words`, and the weight: samples or microseconds, never 0.
    pub stacks: Vec<(Vec<u32>, u64)>,
    /// Sum of the weights.
    pub total: u64,
    /// Number of stacks that were cut at [`DEPTH_MAX`].
    pub too_deep: u64,
}

/// The name of a process or frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StackName {
    /// Name of the process or function; `[libc.so.6]` if only the file is known. From outside: may contain
    /// any character.
    pub text: String,
    /// File of the function.
    pub module: Option<String>,
    /// Whether it is kernel code.
    pub is_kernel: bool,
}

impl Profile {
    /// The named stacks; `None` if the profile has no such part.
    #[must_use]
    pub fn named_stacks(&self, which: StackKind) -> Option<NamedStacks> {
        let mut book = NameTable::default();
        let frames: Vec<u32> = self.frames.iter().map(|frame| book.place(word(frame))).collect();
        let unknown = book.place(StackName::plain("[unknown]"));
        let cut = book.place(StackName::plain("[deeper]"));
        let none = book.place(StackName::plain("[no stack]"));
        let processes: HashMap<u32, u32> = self
            .processes
            .iter()
            .map(|process| (process.pid, book.place(StackName::plain(&process.name))))
            .collect();
        let mut named_stacks = NamedStacks::default();
        let mut add = |pid: u32, stack: &[u32], weight: u64| {
            if weight == 0 {
                return;
            }
            let process = processes.get(&pid).copied();
            let process = process.unwrap_or_else(|| book.place(StackName::plain(&format!("pid {pid}"))));
            let mut words = Vec::with_capacity(stack.len().min(DEPTH_MAX) + 2);
            words.push(process);
            let place = |frame: &u32| frames.get(*frame as usize).copied().unwrap_or(unknown);
            words.extend(stack.iter().take(DEPTH_MAX).map(place));
            if stack.len() > DEPTH_MAX {
                words.push(cut);
                named_stacks.too_deep += 1;
            }
            if stack.is_empty() {
                words.push(none);
            }
            named_stacks.total = named_stacks.total.saturating_add(weight);
            named_stacks.stacks.push((words, weight));
        };
        match which {
            StackKind::Cpu => {
                for one in &self.cpu.as_ref()?.stacks {
                    add(one.pid, &one.stack, one.samples);
                }
            }
            StackKind::Waits => {
                for one in self.waits.as_ref()? {
                    add(one.pid, &one.stack, one.total_ns.div_ceil(1000));
                }
            }
        }
        named_stacks.words = book.words;
        Some(named_stacks)
    }
}

/// Distinct names with their indices.
#[derive(Default)]
struct NameTable {
    words: Vec<StackName>,
    places: HashMap<StackName, u32>,
}

impl NameTable {
    fn place(&mut self, word: StackName) -> u32 {
        if let Some(place) = self.places.get(&word) {
            return *place;
        }
        let place = self.words.len() as u32;
        self.words.push(word.clone());
        self.places.insert(word, place);
        place
    }
}

impl StackName {
    fn plain(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

/// The name of a frame. Frames without a function are named by their files, since each sample has another
/// offset.
fn word(frame: &Frame) -> StackName {
    let text = match (frame.function.as_deref(), frame.module.as_deref()) {
        (Some(function), _) if !function.is_empty() => function.to_owned(),
        (_, module) => unnamed(module),
    };
    StackName {
        text,
        module: frame.module.clone(),
        is_kernel: frame.space == Space::Kernel,
    }
}

/// The name of a frame without a function: `[libc.so.6]`.
pub(crate) fn unnamed(module: Option<&str>) -> String {
    match module {
        Some(module) if module.starts_with('[') => module.to_owned(),
        Some(module) => format!("[{module}]"),
        None => "[unknown]".to_owned(),
    }
}

/// Longest stack; perf and BPF take 127 frames of each space.
pub const DEPTH_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cpu, CpuStack, Process, Wait};

    #[test]
    fn frames_are_named() {
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
        let named_stacks = profile.named_stacks(StackKind::Cpu).unwrap();
        let lines: Vec<String> = named_stacks
            .stacks
            .iter()
            .map(|(stack, weight)| {
                let texts: Vec<&str> = stack
                    .iter()
                    .map(|word| named_stacks.words[*word as usize].text.as_str())
                    .collect();
                format!("{} {weight}", texts.join(";"))
            })
            .collect();
        assert_eq!(lines[0], "dd;main;[libc.so.6];ksys_read 5");
        assert_eq!(lines[1], "pid 9;[vdso];[unknown] 1");
        assert_eq!(lines[2], "dd;[no stack] 2");
        assert!(lines[3].ends_with(";main;[deeper] 1"));
        assert_eq!(
            (lines.len(), named_stacks.total, named_stacks.too_deep),
            (4, 9, 1)
        );
        let waits = profile.named_stacks(StackKind::Waits).unwrap();
        assert_eq!((waits.stacks[0].1, waits.total), (2, 2));
        assert_eq!(Profile::default().named_stacks(StackKind::Cpu), None);
    }
}
