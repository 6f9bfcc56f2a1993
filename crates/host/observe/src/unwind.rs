//! Walks user stacks by the unwind tables of programs (`.eh_frame`), for code without frame pointers: from the registers and the copy of
//! the stack that the kernel added to a sample.
//!
//! `framehop` interprets the tables, which are DWARF. Its modules are not those of one process: each file has a range of its own in an
//! address space of ours, so that all processes share the tables and the cache of rules.

use crate::symbols::UnwindTables;
use crate::{FileNumber, Incarnation, Processes, Symbols};
use foldhash::HashMap;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use sockeye_wire::perf::UserStack;
use std::sync::Arc;

/// How the stacks of samples are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unwind {
    /// By frame pointers, in the kernel.
    #[default]
    FramePointers,
    /// By unwind tables (`.eh_frame`), from a copy of the stack.
    Tables,
    /// Both: the longer stack counts.
    Longer,
}

impl Unwind {
    /// Whether this processor's registers and tables are known.
    pub(crate) const HAS_TABLES: bool = cfg!(target_arch = "x86_64");
}

/// The registers and the copy of the stack of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackCopy {
    ip: u64,
    sp: u64,
    bp: u64,
    bytes: Box<[u8]>,
}

/// The unwind tables of files, read when the first of their addresses is in a stack.
pub(crate) struct StackWalker {
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    cache: CacheX86_64,
    /// By file: the translation of its offsets; `None` if it has no tables.
    files: HashMap<FileNumber, Option<UnwindTables>>,
    /// Bytes of all tables.
    bytes: usize,
}

impl StackCopy {
    pub(crate) fn new(stack: &UserStack<'_>) -> Self {
        Self {
            ip: stack.ip,
            sp: stack.sp,
            bp: stack.bp,
            bytes: stack.bytes.into(),
        }
    }

    /// Returns the word at an address of the stack.
    fn word(&self, address: u64) -> Result<u64, ()> {
        let at = usize::try_from(address.checked_sub(self.sp).ok_or(())?).map_err(|_| ())?;
        let word = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        word.map(|word| u64::from_ne_bytes(*word)).ok_or(())
    }
}

impl StackWalker {
    pub(crate) fn new() -> Self {
        Self {
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            files: HashMap::default(),
            bytes: 0,
        }
    }

    /// Returns the addresses of a user stack, the innermost first: the instruction, then return addresses.
    pub(crate) fn walk(
        &mut self,
        process: Incarnation,
        copy: &StackCopy,
        processes: &Processes,
        symbols: &Symbols,
    ) -> Vec<u64> {
        let mut registers = UnwindRegsX86_64::new(copy.ip, copy.sp, copy.bp);
        let mut address =
            FrameAddress::from_instruction_pointer(self.ours(process, copy.ip, processes, symbols));
        let mut stack = vec![copy.ip];
        let mut read = |at: u64| copy.word(at);
        while stack.len() < FRAMES_MAX {
            let before = registers;
            let next = self
                .unwinder
                .unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            let is_known = |caller: &u64| processes.locate(process, caller.wrapping_sub(1)).is_some();
            // Frame pointers of code without tables may lead anywhere.
            let known = next.ok().flatten().filter(is_known);
            let has_tables = address.address_for_lookup() & WITHOUT_TABLES == 0;
            let trampoline = || {
                let (caller, changed) = of_trampoline(before, copy)?;
                Some((caller, changed)).filter(|(caller, _)| is_known(caller))
            };
            let caller = match known {
                Some(caller) => caller,
                // The innermost code is hardly ever a trampoline.
                None if has_tables || stack.len() == 1 => break,
                None => {
                    let Some((caller, changed)) = trampoline() else {
                        break;
                    };
                    registers = changed;
                    caller
                }
            };
            // A return address may be that of the next function: the call is before it.
            let call = self.ours(process, caller.wrapping_sub(1), processes, symbols);
            let Some(at) = FrameAddress::from_return_address(call.wrapping_add(1)) else {
                break;
            };
            stack.push(caller);
            address = at;
        }
        stack
    }

    /// Returns an address of a process in our address space, where every file has a range; its tables are read.
    fn ours(&mut self, process: Incarnation, address: u64, processes: &Processes, symbols: &Symbols) -> u64 {
        let elsewhere = WITHOUT_TABLES | address;
        let Some((file, offset)) = processes.locate(process, address) else {
            return elsewhere;
        };
        if !self.files.contains_key(&file) {
            let tables = symbols.unwind_tables(file);
            let tables = tables.filter(|tables| {
                let bytes = tables.eh_frame.1.len() + tables.eh_frame_hdr.as_ref().map_or(0, |it| it.1.len());
                self.bytes += bytes;
                self.bytes <= BYTES_MAX
            });
            let tables = tables.map(|tables| self.add(file, tables));
            self.files.insert(file, tables);
        }
        let Some(Some(tables)) = self.files.get(&file) else {
            return elsewhere;
        };
        let linked = tables.code.iter().find_map(|(from, len, linked)| {
            let within = offset.checked_sub(*from)?;
            (within < *len).then(|| linked.wrapping_add(within))
        });
        match linked.filter(|linked| *linked < FILE_BYTES) {
            Some(linked) => base(file) + linked,
            None => elsewhere,
        }
    }

    /// Gives the tables of a file to the unwinder.
    fn add(&mut self, file: FileNumber, mut tables: UnwindTables) -> UnwindTables {
        let range = |address: u64, bytes: &[u8]| address..address.saturating_add(bytes.len() as u64);
        let (address, bytes) = std::mem::take(&mut tables.eh_frame);
        let header = tables.eh_frame_hdr.take();
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: tables.text.clone(),
            got_svma: tables.got.clone(),
            eh_frame_svma: Some(range(address, &bytes)),
            eh_frame: Some(bytes.into()),
            eh_frame_hdr_svma: header.as_ref().map(|(address, bytes)| range(*address, bytes)),
            eh_frame_hdr: header.map(|(_, bytes)| bytes.into()),
            ..ExplicitModuleSectionInfo::default()
        };
        let base = base(file);
        self.unwinder
            .add_module(Module::new(String::new(), base..base + FILE_BYTES, base, info));
        tables
    }
}

/// Returns the caller of a trampoline of Python's perf maps (`Python/asm_trampoline.S`), and the registers there. It has one word of
/// its own on the stack: the caller's frame pointer, or nothing.
fn of_trampoline(mut registers: UnwindRegsX86_64, copy: &StackCopy) -> Option<(u64, UnwindRegsX86_64)> {
    let sp = registers.sp();
    let caller = copy.word(sp.checked_add(8)?).ok()?;
    if registers.bp() == sp {
        registers.set_bp(copy.word(sp).ok()?);
    }
    registers.set_sp(sp.checked_add(16)?);
    registers.set_ip(caller);
    Some((caller, registers))
}

impl std::fmt::Debug for StackWalker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StackWalker")
            .field("files", &self.files.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Returns the first address of a file in our address space.
fn base(file: FileNumber) -> u64 {
    (u64::from(file.0) + 1) * FILE_BYTES
}

/// The range of a file: the largest that can be addressed by 2^30 files below [`WITHOUT_TABLES`].
const FILE_BYTES: u64 = 1 << 32;
/// Addresses of code without tables.
const WITHOUT_TABLES: u64 = 1 << 63;
/// The most frames of a stack.
const FRAMES_MAX: usize = 256;
/// The most bytes of tables of all files.
const BYTES_MAX: usize = 256 << 20;
