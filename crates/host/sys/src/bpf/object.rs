//! Parses a compiled BPF object, patches its relocations, links its maps and loads its programs. `source`
//! loads its socket walk, file iterator and keepalive program with it; `load.rs` builds on it for objects
//! with many programs.

use super::Map;
use super::array::{Array, MMAPABLE};
use super::attach_call;
use super::call::{self, Code};
use super::memory_lock;
use super::program::Program;
use super::table::Definition;
use aya_obj::EbpfSectionKind;
use aya_obj::btf::BtfFeatures;
use aya_obj::generated::bpf_insn;
use object::{Object as _, ObjectSection as _};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A compiled BPF object that is not loaded yet.
#[derive(Debug)]
pub struct Object<'a> {
    parsed: aya_obj::Object,
    types: &'a [u8],
    types_ext: &'a [u8],
    /// Names and indexes of the code sections.
    sections: Vec<(String, usize)>,
}

/// Why an object could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not a BPF object, or has an unsupported form.
    Object(String),
    /// A system call failed: the operation and its errno.
    System(&'static str, Errno),
    /// The kernel counts maps and programs against RLIMIT_MEMLOCK (before Linux 5.11), and the operation needs more. The limit in
    /// bytes, which could not be raised.
    MemoryLock(&'static str, u64),
    /// The verifier rejected the program: the errno and the last line of its log.
    Rejected(Errno, String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(problem) => write!(f, "not a BPF object: {problem}"),
            Self::System(operation, Errno::NOSYS) => {
                write!(f, "{operation}: this kernel has no BPF (CONFIG_BPF_SYSCALL)")
            }
            Self::System(operation, errno) => write!(f, "{operation}: {errno}"),
            Self::MemoryLock(operation, limit) => write!(
                f,
                "{operation}: this kernel counts that against RLIMIT_MEMLOCK, which is {limit} bytes here and can only be raised \
                 with CAP_SYS_RESOURCE: raise it before (ulimit -l unlimited, LimitMEMLOCK=infinity)"
            ),
            Self::Rejected(errno, reason) => {
                write!(
                    f,
                    "the kernel's verifier rejected the program: {errno} ({reason})"
                )
            }
        }
    }
}

impl LoadError {
    /// The error of a system call that made a map or a program.
    pub(super) fn of(operation: &'static str, errno: Errno) -> Self {
        match memory_lock::reached_limit(errno) {
            Some(limit) => Self::MemoryLock(operation, limit),
            None => Self::System(operation, errno),
        }
    }

    /// Whether the verifier rejected the program because of a relocation without a number ([`Object::patch`]).
    #[must_use]
    pub fn is_for_missing_field(&self) -> bool {
        matches!(self, Self::Rejected(_, reason) if reason.contains(&NO_HELPER.to_string()))
    }
}

/// Its text has the cause.
impl std::error::Error for LoadError {}

impl<'a> Object<'a> {
    /// Parses an object compiled by clang.
    ///
    /// # Errors
    /// [`LoadError::Object`]
    pub fn parse(elf: &'a [u8]) -> Result<Self, LoadError> {
        let file = object::File::parse(elf).map_err(|error| LoadError::Object(error.to_string()))?;
        let section = |name| {
            let section = file.section_by_name(name)?;
            section.data().ok()
        };
        let missing = |name: &str| LoadError::Object(format!("it has no section {name}"));
        Ok(Self {
            types: section(".BTF").ok_or_else(|| missing(".BTF"))?,
            types_ext: section(".BTF.ext").ok_or_else(|| missing(".BTF.ext"))?,
            sections: file
                .sections()
                .filter(|section| section.kind() == object::SectionKind::Text)
                .filter_map(|section| Some((section.name().ok()?.to_owned(), section.index().0)))
                .collect(),
            parsed: aya_obj::Object::parse(elf).map_err(|error| LoadError::Object(error.to_string()))?,
        })
    }

    /// The object's BTF: the content of its section `.BTF`.
    #[must_use]
    pub fn types(&self) -> &'a [u8] {
        self.types
    }

    /// The object's relocations against the kernel's BTF: the content of its section `.BTF.ext`.
    #[must_use]
    pub fn types_ext(&self) -> &'a [u8] {
        self.types_ext
    }

    /// Applies a relocation: writes a number into the instruction at an offset of a section. Without a number the
    /// instruction becomes one that the verifier rejects, if it is reachable.
    ///
    /// # Errors
    /// [`LoadError::Object`] if there is no such instruction, or it has no field for a number.
    pub fn patch(&mut self, section: &str, offset_bytes: u32, number: Option<u32>) -> Result<(), LoadError> {
        let wrong = || LoadError::Object(format!("no number fits at {section}+{offset_bytes}"));
        let (_, section_index) = *self
            .sections
            .iter()
            .find(|(name, _)| name == section)
            .ok_or_else(wrong)?;
        let offset = offset_bytes as usize;
        let (instructions, index) = self
            .parsed
            .functions
            .values_mut()
            .filter(|function| function.section_index.0 == section_index)
            .find_map(|function| {
                let index = offset.checked_sub(function.section_offset)? / size_of::<bpf_insn>();
                (index < function.instructions.len()).then_some((&mut function.instructions, index))
            })
            .ok_or_else(wrong)?;
        let wide = instructions[index].code == LOAD_64;
        match (number, instructions[index].code) {
            (Some(number), code) if code == LOAD_64 || has_immediate_operand(code) => {
                instructions[index].imm = number.cast_signed();
            }
            (Some(number), code) if loads_from_memory(code) => {
                instructions[index].off = i16::try_from(number).map_err(|_| wrong())?;
            }
            (Some(_), _) => return Err(wrong()),
            (None, _) => {
                let end = index + 1 + usize::from(wide);
                for instruction in instructions.get_mut(index..end).ok_or_else(wrong)? {
                    instruction.code = CALL;
                    instruction.set_dst_reg(0);
                    instruction.set_src_reg(0);
                    instruction.off = 0;
                    instruction.imm = NO_HELPER;
                }
            }
        }
        Ok(())
    }

    /// Whether it calls the helper `placeholder`, a number that no helper has.
    #[must_use]
    pub fn calls(&self, placeholder: i32) -> bool {
        let mut instructions = self
            .parsed
            .functions
            .values()
            .flat_map(|function| &function.instructions);
        instructions.any(|instruction| {
            instruction.code == CALL && instruction.src_reg() == 0 && instruction.imm == placeholder
        })
    }

    /// Replaces each call of the helper `placeholder`, a number that no helper has, by a call of the kernel function
    /// with this BTF id.
    pub fn call_kernel_function(&mut self, placeholder: i32, id: u32) {
        for function in self.parsed.functions.values_mut() {
            for instruction in &mut function.instructions {
                if instruction.code == CALL && instruction.src_reg() == 0 && instruction.imm == placeholder {
                    instruction.set_src_reg(PSEUDO_KFUNC_CALL);
                    instruction.imm = id.cast_signed();
                }
            }
        }
    }

    /// Loads the raw tracepoint programs with these names, and the array map `map`.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON.
    pub fn load_raw_tracepoints<const N: usize>(
        self,
        names: [&str; N],
        map: &str,
    ) -> Result<([Program; N], Array), LoadError> {
        let definition = self
            .parsed
            .maps
            .get(map)
            .filter(|map| map.map_flags() == MMAPABLE)
            .ok_or_else(|| LoadError::Object(format!("it has no array {map} to be mapped")))?;
        let array = Array::create(definition.value_size(), definition.max_entries())
            .map_err(|errno| LoadError::of("make a BPF array", errno))?;
        let linked = self.link(&[(map, array.as_fd().as_raw_fd())])?;
        let mut programs = Vec::with_capacity(N);
        for name in names {
            let fd = linked.load(name, RAW_TRACEPOINT, 0, 0)?;
            programs.push(Program {
                fd,
                array: Some(array.identity()),
            });
        }
        let programs = programs
            .try_into()
            .map_err(|_| LoadError::Object("it has too few programs".to_owned()))?;
        Ok((programs, array))
    }

    /// Loads the iterator `program` for the kernel's iterator function with this BTF id.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON.
    pub fn load_iterator(self, program: &str, iterated: u32) -> Result<Program, LoadError> {
        let fd = self
            .link(&[])?
            .load(program, TRACING, attach_call::TRACE_ITER, iterated)?;
        Ok(Program { fd, array: None })
    }

    /// Loads the `sock_ops` program `name`, which is attached to cgroups and runs at events of TCP connections, and the
    /// single-value maps with these names.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_NET_ADMIN.
    pub fn load_sock_ops<const N: usize>(
        self,
        name: &str,
        maps: [&str; N],
    ) -> Result<(Program, [Map; N]), LoadError> {
        let mut made = Vec::with_capacity(N);
        for map in maps {
            let definition = self.parsed.maps.get(map);
            let value_bytes = definition
                .map(aya_obj::Map::value_size)
                .ok_or_else(|| LoadError::Object(format!("it has no map {map}")))?;
            let map =
                Map::create(map, value_bytes).map_err(|errno| LoadError::of("make a BPF map", errno))?;
            made.push(map);
        }
        let made: [Map; N] = made
            .try_into()
            .map_err(|_| LoadError::Object("it has too few maps".to_owned()))?;
        let descriptors: Vec<_> = maps
            .iter()
            .zip(&made)
            .map(|(map, made)| (*map, made.as_fd().as_raw_fd()))
            .collect();
        let fd = self
            .link(&descriptors)?
            .load(name, SOCK_OPS, attach_call::CGROUP_SOCK_OPS, 0)?;
        Ok((Program { fd, array: None }, made))
    }

    /// Sets the values of the object's constants.
    pub(super) fn set_constants(&mut self, constants: &[(&str, &[u8])]) -> Result<(), LoadError> {
        let values: HashMap<_, _> = constants
            .iter()
            .map(|(name, value)| (*name, (*value, true)))
            .collect();
        self.parsed
            .patch_map_data(values)
            .map_err(|error| LoadError::Object(error.to_string()))
    }

    /// Returns the maps that it defines, and the maps of its variables and constants.
    pub(super) fn maps(&self) -> impl Iterator<Item = MapOfObject<'_>> {
        self.parsed.maps.iter().map(|(name, map)| {
            let data = map.data();
            let is_constant = map.section_kind() == EbpfSectionKind::Rodata;
            MapOfObject {
                definition: Definition {
                    name,
                    kind: map.map_type(),
                    key_bytes: map.key_size(),
                    value_bytes: map.value_size(),
                    entries: map.max_entries(),
                    flags: map.map_flags(),
                },
                data: (!data.is_empty()).then_some(data),
                is_constant,
            }
        })
    }

    /// Relocates maps and functions, and loads the BTF of its functions, which the verifier needs for loop callbacks.
    pub(super) fn link(mut self, maps: &[(&str, i32)]) -> Result<Linked, LoadError> {
        let broken = |error: &dyn fmt::Display| LoadError::Object(error.to_string());
        let features = BtfFeatures::new(true, true, true, true, true, true, true, true);
        let types = self
            .parsed
            .fixup_and_sanitize_btf(&features)
            .map_err(|error| broken(&error))?
            .ok_or_else(|| broken(&"it has no types"))?
            .to_bytes();
        let types = call::load_types(&types)
            .map_err(|errno| LoadError::System("load a BPF program's types", errno))?;
        let texts: HashSet<usize> = self
            .parsed
            .functions
            .keys()
            .map(|(section, _)| *section)
            .collect();
        let definitions: Vec<_> = maps
            .iter()
            .filter_map(|(name, fd)| Some((*name, *fd, self.parsed.maps.get(*name)?.clone())))
            .collect();
        self.parsed
            .relocate_maps(
                definitions.iter().map(|(name, fd, map)| (*name, *fd, map)),
                &texts,
            )
            .map_err(|error| broken(&error))?;
        self.parsed
            .relocate_calls(&texts)
            .map_err(|error| broken(&error))?;
        Ok(Linked {
            parsed: self.parsed,
            types,
        })
    }
}

/// A map definition of an object.
pub(super) struct MapOfObject<'a> {
    pub(super) definition: Definition<'a>,
    /// Initial content, if the map is a data section.
    pub(super) data: Option<&'a [u8]>,
    pub(super) is_constant: bool,
}

/// An object with its maps relocated and its BTF loaded.
pub(super) struct Linked {
    parsed: aya_obj::Object,
    types: OwnedFd,
}

impl Linked {
    /// Returns the number of instructions of a program, with the functions that it calls.
    pub(super) fn instructions(&self, name: &str) -> Option<usize> {
        let program = self.parsed.programs.get(name)?;
        let function = self.parsed.functions.get(&program.function_key())?;
        Some(function.instructions.len())
    }

    pub(super) fn load(
        &self,
        name: &str,
        program_type: u32,
        attach_type: u32,
        attach_btf_id: u32,
    ) -> Result<OwnedFd, LoadError> {
        let missing = || LoadError::Object(format!("it has no program {name}"));
        let program = self.parsed.programs.get(name).ok_or_else(missing)?;
        let function = self
            .parsed
            .functions
            .get(&program.function_key())
            .ok_or_else(missing)?;
        let c_name = CString::new(name).map_err(|_| missing())?;
        let code = Code {
            name: &c_name,
            program_type,
            attach_type,
            attach_btf_id,
            license: &program.license,
            instructions: &function.instructions,
            types: self.types.as_fd(),
            functions: &function.func_info.func_info,
            lines: &function.line_info.line_info,
        };
        match memory_lock::with_raised_limit(|| call::load_program(&code, None)) {
            Ok(fd) => Ok(fd),
            // EACCES comes from the verifier or from a security policy: only the verifier writes a log.
            Err(Errno::PERM) => Err(LoadError::of("load a BPF program", Errno::PERM)),
            Err(errno) => load_with_log(&code, errno),
        }
    }
}

/// `BPF_ALU` and `BPF_ALU64` with `BPF_K`: arithmetic with an immediate number.
fn has_immediate_operand(code: u8) -> bool {
    matches!(code & 0x0f, 0x04 | 0x07)
}

/// `BPF_LDX` with `BPF_MEM`: a load from a register plus an offset.
fn loads_from_memory(code: u8) -> bool {
    code & 0xe7 == 0x61
}

/// Loads the program again with a log, to learn why it was rejected; it may be accepted this time. Before Linux 6.4 a log that is
/// too short hides the reason: the errno is `ENOSPC`, and only the beginning of the log is kept.
fn load_with_log(code: &Code<'_>, rejection: Errno) -> Result<OwnedFd, LoadError> {
    let mut errno = rejection;
    let mut text = String::new();
    for size in LOG_BYTES {
        let mut log = vec![0; size];
        errno = match memory_lock::with_raised_limit(|| call::load_program(code, Some(&mut log))) {
            Ok(fd) => return Ok(fd),
            // These errors do not come from the verifier.
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN)) => {
                return Err(LoadError::System("load a BPF program", errno));
            }
            Err(errno) => errno,
        };
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        text = String::from_utf8_lossy(&log[..end]).into_owned();
        if errno != Errno::NOSPC {
            break;
        }
    }
    if errno == Errno::NOSPC {
        return Err(LoadError::System("load a BPF program", rejection));
    }
    // Statistics follow the reason.
    let reason = text.lines().rfind(|line| {
        !line.trim().is_empty() && !line.starts_with("processed ") && !line.starts_with("stack depth")
    });
    Err(match reason {
        Some(reason) => LoadError::Rejected(errno, reason.trim().to_owned()),
        None => LoadError::System("load a BPF program", errno),
    })
}

/// Sizes of the verifier's log, tried one after the other. The reason is at its end.
const LOG_BYTES: [usize; 3] = [256 << 10, 8 << 20, 128 << 20];

// Codes of instructions (`include/uapi/linux/bpf.h`, `bpf_common.h`).
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const PSEUDO_KFUNC_CALL: u8 = 2;

/// The helper number that libbpf writes into an unreachable instruction; it appears in the verifier's log.
const NO_HELPER: i32 = 0xbad_2310;

/// `enum bpf_prog_type`
const SOCK_OPS: u32 = 13;
const RAW_TRACEPOINT: u32 = 17;
const TRACING: u32 = 26;
