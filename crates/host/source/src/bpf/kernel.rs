//! BTF of the running kernel: it relocates our BPF objects for this kernel (CO-RE) and loads them. The walks
//! and iterators of `bpf/` and `BpfEngine` use it, and through it `observe`.

use crate::unavailable::{KERNEL_TYPES, Unavailable};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sockeye_sys::bpf::{LoadError, LoadOptions, LoadedObject, Object, Program, Slot};
use sockeye_sys::mapped_file::MappedFile;
use sockeye_wire::btf::relocation::{self, Relocation, RelocationTarget};
use sockeye_wire::btf::{Answers, Btf, Query, TypeKind};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The types of the running kernel (BTF).
#[derive(Debug)]
pub(crate) struct Kernel {
    types: Types,
    path: PathBuf,
    /// Whether programs that read in place do not work here.
    lacks_cast: AtomicBool,
    /// Whether this kernel is treated as one without `bpf_rdonly_cast`.
    without_cast: bool,
}

#[derive(Debug)]
enum Types {
    MappedFile(MappedFile),
    Read(Vec<u8>),
}

/// Numbers that differ between kernels, in the order in which they were asked for; `None` for what this kernel does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNumbers {
    /// How many arguments tracepoints have.
    pub arguments: Vec<Option<u32>>,
    /// Values of enumerators.
    pub values: Vec<Option<i64>>,
}

impl KernelNumbers {
    /// Returns how many arguments a tracepoint has; 0 if this kernel does not have it.
    #[must_use]
    pub fn arguments(&self, place: usize) -> u32 {
        self.arguments.get(place).copied().flatten().unwrap_or(0)
    }

    /// Returns the value of an enumerator; 0 if this kernel does not have it.
    #[must_use]
    pub fn value(&self, place: usize) -> u32 {
        let value = self.values.get(place).copied().flatten();
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
    }
}

/// A program, compiled twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compiled {
    /// Reads structs in place by `bpf_rdonly_cast` (Linux 6.2), and loops by `bpf_loop` (Linux 5.17).
    pub(crate) in_place: &'static [u8],
    /// Copies structs by probe-reads, and loops within bounds that the verifier can follow: Linux 5.10.
    pub(crate) by_copy: &'static [u8],
}

/// How long the load of a program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Some milliseconds, by reading in place: else [`Unavailable::SlowStart`]
    Quick,
    /// Also 60 to 100 ms of the verifier, by copying
    Any,
}

/// An object adapted to this kernel.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) object: Object<'a>,
    /// Whether it is a program that reads by copying.
    pub(crate) is_copying: bool,
    /// Types and fields that the object uses and this kernel lacks.
    pub(crate) missing: Vec<String>,
    /// The values of the requested enumerators; `None` if the kernel lacks one.
    pub(crate) enumerators: Vec<Option<i64>>,
}

impl Prepared<'_> {
    /// Loads two programs, and maps the array `slots` that they share.
    pub(crate) fn load_with_slots(
        self,
        programs: [&str; 2],
        slot_bytes: usize,
    ) -> Result<([Program; 2], Vec<Slot>), Unavailable> {
        let (programs, array) = self
            .object
            .load_raw_tracepoints(programs, "slots")
            .map_err(|error| Unavailable::Load(error, self.missing))?;
        let slots = array
            .into_slots()
            .map_err(|errno| Unavailable::Load(LoadError::System("map a BPF array", errno), Vec::new()))?;
        if slots.iter().any(|slot| slot.bytes().len() != slot_bytes) {
            return Err(Unavailable::UnexpectedReply("slots of another size"));
        }
        Ok((programs, slots))
    }
}

impl Kernel {
    /// Path of the types of a kernel with CONFIG_DEBUG_INFO_BTF.
    pub(crate) const TYPES: &'static str = KERNEL_TYPES;

    /// Reads the types. `without_cast`: treats this kernel as one without `bpf_rdonly_cast`.
    pub(crate) fn read(path: &Path, without_cast: bool) -> Result<Self, Unavailable> {
        let read = || {
            // The path may name a FIFO: opening it must not block.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
            let bytes = file.metadata()?.len() as usize;
            // Only the kernel's own file may be mapped, and only by newer kernels.
            if let Ok(mapped) = MappedFile::kernel_btf(file.as_fd()) {
                return Ok(Types::MappedFile(mapped));
            }
            let mut types = Vec::with_capacity(bytes.min(TYPES_BYTES_MAX));
            file.take(TYPES_BYTES_MAX as u64 + 1).read_to_end(&mut types)?;
            if types.len() > TYPES_BYTES_MAX {
                return Err(Errno::FBIG.into());
            }
            Ok(Types::Read(types))
        };
        match read() {
            Ok(types) => Ok(Self {
                types,
                path: path.to_owned(),
                lacks_cast: AtomicBool::new(without_cast),
                without_cast,
            }),
            Err(error) => Err(Unavailable::Types(
                path.to_owned(),
                Errno::from_io_error(&error).unwrap_or(Errno::IO),
            )),
        }
    }

    /// Whether a program was refused because this kernel has no `bpf_rdonly_cast`.
    pub(crate) fn lacks_cast(&self) -> bool {
        self.lacks_cast.load(Ordering::Relaxed)
    }

    fn types(&self) -> &[u8] {
        match &self.types {
            Types::MappedFile(mapped) => mapped.bytes(),
            Types::Read(types) => types,
        }
    }

    /// Prepares a program for this kernel and passes it to `load`: the one that reads in place if the kernel accepts it, else
    /// the one that copies. If it accepts neither, the error is that of the first. A kernel without the cast needs no second look.
    pub(crate) fn load_best<T>(
        &self,
        program: &Compiled,
        enumerators: &[&'static str],
        start: Start,
        load: impl Fn(Prepared<'_>) -> Result<T, Unavailable>,
    ) -> Result<T, Unavailable> {
        let load = |elf| self.prepare(elf, enumerators).and_then(&load);
        let load_copying = || match start {
            Start::Any => load(program.by_copy),
            Start::Quick => Err(Unavailable::SlowStart),
        };
        if self.lacks_cast() {
            return load_copying();
        }
        match load(program.in_place) {
            Err(Unavailable::Lacks(_)) => {
                self.lacks_cast.store(true, Ordering::Relaxed);
                load_copying()
            }
            Err(Unavailable::Load(error @ LoadError::Rejected(..), missing))
                if !error.is_for_missing_field() =>
            {
                load(program.by_copy).map_err(|_| Unavailable::Load(error, missing))
            }
            loaded => loaded,
        }
    }

    /// Parses an object and applies its relocations for this kernel; looks up the values of `enumerators` too.
    pub(crate) fn prepare<'a>(
        &self,
        elf: &'a [u8],
        enumerators: &[&'static str],
    ) -> Result<Prepared<'a>, Unavailable> {
        let (prepared, _) = self.prepare_all(elf, enumerators, &[], &[])?;
        Ok(prepared)
    }

    /// Prepares an object for an iterator. Returns it with the BTF id of the kernel function `iterated`, which identifies
    /// what is iterated over.
    pub(crate) fn prepare_iterator<'a>(
        &self,
        elf: &'a [u8],
        iterated: &'static str,
    ) -> Result<(Prepared<'a>, u32), Unavailable> {
        let (prepared, ids) = self.prepare_all(elf, &[], &[iterated], &[])?;
        match ids.first() {
            Some(Some(id)) => Ok((prepared, *id)),
            _ => Err(Unavailable::Lacks(iterated)),
        }
    }

    /// As [`Kernel::prepare`], and loads these of its programs with all its maps.
    pub(crate) fn load(&self, elf: &[u8], parts: &LoadOptions<'_>) -> Result<LoadedObject, Unavailable> {
        let mut functions: Vec<&str> = parts
            .programs
            .iter()
            .filter_map(|(_, kind)| kind.kernel_function())
            .collect();
        functions.push("bpf_session_is_return");
        functions.push(SAFE_ALLOCATOR);
        let typedefs = parts
            .programs
            .iter()
            .filter_map(|(_, kind)| kind.kernel_typedef());
        let typedefs: Vec<&str> = typedefs.collect();
        let (mut prepared, ids) = self.prepare_all(elf, &[], &functions, &typedefs)?;
        // Without it the verifier refuses only the programs that call it.
        if let Some(Some(id)) = ids.get(functions.len() - 2) {
            prepared.object.call_kernel_function(SESSION_IS_RETURN, *id);
        }
        let id = |wanted: &str| {
            let place = functions
                .iter()
                .chain(&typedefs)
                .position(|name| *name == wanted)?;
            ids.get(place).copied().flatten()
        };
        let parts = LoadOptions {
            preallocates: id(SAFE_ALLOCATOR).is_none(),
            ..*parts
        };
        prepared
            .object
            .load(&parts, id)
            .map_err(|error| Unavailable::Load(error, prepared.missing))
    }

    /// Returns the BTF id of a kernel function; `None` if the kernel has none of this name.
    pub(crate) fn function_id(&self, name: &str) -> Result<Option<u32>, Unavailable> {
        let question = Query::Type {
            kind: TypeKind::Func,
            name,
        };
        let answers = self.answers(&[question])?;
        Ok(answers.type_id(0).map(|id| id.0))
    }

    /// Returns the numbers of these tracepoints and of these enumerators, of any enum, by one pass over the types.
    pub(crate) fn numbers(
        &self,
        events: &[&str],
        enumerators: &[&str],
    ) -> Result<KernelNumbers, Unavailable> {
        let typedefs: Vec<String> = events.iter().map(|event| format!("btf_trace_{event}")).collect();
        let mut questions: Vec<_> = typedefs
            .iter()
            .map(|typedef| Query::Parameters { typedef })
            .collect();
        questions.extend(enumerators.iter().map(|name| Query::Enumerator {
            enumeration: None,
            name,
        }));
        let answers = self.answers(&questions)?;
        // The first parameter is not the event's, but that of the registered function.
        let count = |place| answers.parameters(place)?.checked_sub(1);
        let value = |place: usize| answers.enumerator(events.len() + place);
        Ok(KernelNumbers {
            arguments: (0..events.len()).map(count).collect(),
            values: (0..enumerators.len()).map(value).collect(),
        })
    }

    /// Returns values and names of an enum of the kernel; none if it does not have it.
    pub(crate) fn enumerators(&self, enumeration: &str) -> Result<Vec<(i64, String)>, Unavailable> {
        let found = Btf::parse(self.types()).and_then(|types| types.enumerators(enumeration));
        let found = found.map_err(|error| Unavailable::Format(self.path.clone(), error.to_string()))?;
        Ok(found
            .into_iter()
            .map(|(value, name)| (value, name.into_owned()))
            .collect())
    }

    /// Returns values and names of an enum of a module; none if the module is not loaded, or has no such enum. One that is compiled into
    /// the kernel is found there.
    pub(crate) fn module_enumerators(
        &self,
        module: &str,
        enumeration: &str,
    ) -> Result<Vec<(i64, String)>, Unavailable> {
        let path = Path::new(MODULE_TYPES).join(module);
        let Ok(blob) = std::fs::read(&path) else {
            return self.enumerators(enumeration);
        };
        let found = Btf::parse(self.types())
            .and_then(|kernel| Btf::parse(&blob)?.module_enumerators(&kernel, enumeration));
        let found = found.map_err(|error| Unavailable::Format(path, error.to_string()))?;
        Ok(found
            .into_iter()
            .map(|(value, name)| (value, name.into_owned()))
            .collect())
    }

    /// Returns whether an enumeration of the kernel has this name for a value.
    pub(crate) fn has_enumerator(&self, name: &str) -> Result<bool, Unavailable> {
        let question = Query::Enumerator {
            enumeration: None,
            name,
        };
        Ok(self.answers(&[question])?.enumerator(0).is_some())
    }

    /// Reads all types once.
    fn answers(&self, questions: &[Query<'_>]) -> Result<Answers, Unavailable> {
        let answers = Btf::parse(self.types()).and_then(|types| types.answer(questions));
        answers.map_err(|error| Unavailable::Format(self.path.clone(), error.to_string()))
    }

    fn prepare_all<'a>(
        &self,
        elf: &'a [u8],
        enumerators: &[&'static str],
        functions: &[&str],
        typedefs: &[&str],
    ) -> Result<(Prepared<'a>, Vec<Option<u32>>), Unavailable> {
        let broken =
            |error: &dyn fmt::Display| Unavailable::Load(LoadError::Object(error.to_string()), Vec::new());
        let mut object = Object::parse(elf).map_err(|error| Unavailable::Load(error, Vec::new()))?;
        let own = Btf::parse(object.types()).map_err(|error| broken(&error))?;
        let relocations = relocation::read(&own, object.types_ext()).map_err(|error| broken(&error))?;
        // Many instructions want the same.
        let mut questions = vec![Query::Type {
            kind: TypeKind::Func,
            name: CAST,
        }];
        questions.extend(enumerators.iter().map(|name| Query::Enumerator {
            enumeration: None,
            name,
        }));
        let first_function = questions.len();
        questions.extend(functions.iter().map(|name| Query::Type {
            kind: TypeKind::Func,
            name,
        }));
        questions.extend(typedefs.iter().map(|name| Query::Type {
            kind: TypeKind::Typedef,
            name,
        }));
        let mut places = HashMap::new();
        let of_question: Vec<usize> = relocations
            .iter()
            .map(|relocation| {
                let question = relocation.query();
                *places.entry(name(relocation)).or_insert_with(|| {
                    questions.push(question);
                    questions.len() - 1
                })
            })
            .collect();
        let answers = self.answers(&questions)?;
        let mut missing = Vec::new();
        for (relocation, place) in relocations.iter().zip(of_question) {
            let number = relocation.value(answers.get(place));
            object
                .patch(relocation.section, relocation.offset_bytes, number)
                .map_err(|error| Unavailable::Load(error, Vec::new()))?;
            if number.is_none() {
                let name = name(relocation);
                if !missing.contains(&name) {
                    missing.push(name);
                }
            }
        }
        let is_copying = !object.calls(RDONLY_CAST);
        match answers.type_id(0).filter(|_| !self.without_cast) {
            Some(id) => object.call_kernel_function(RDONLY_CAST, id.0),
            None if is_copying => {}
            None => return Err(Unavailable::Lacks("bpf_rdonly_cast (Linux 6.2)")),
        }
        let prepared = Prepared {
            object,
            is_copying,
            missing,
            enumerators: (0..enumerators.len())
                .map(|place| answers.enumerator(place + 1))
                .collect(),
        };
        let ids = (0..functions.len() + typedefs.len())
            .map(|place| Some(answers.type_id(first_function + place)?.0))
            .collect();
        Ok((prepared, ids))
    }
}

/// Returns the subject of a relocation in C syntax.
fn name(relocation: &Relocation<'_>) -> String {
    match &relocation.target {
        RelocationTarget::Field { structure, path, .. } => format!("{structure}.{path}"),
        RelocationTarget::Type { name, .. } => (*name).to_owned(),
    }
}

/// Where the kernel shows the types of its modules: a file for each.
const MODULE_TYPES: &str = "/sys/kernel/btf";

/// Ten times the size on usual kernels. The file may be one that the user named, without an end.
const TYPES_BYTES_MAX: usize = 64 << 20;

/// The function with which programs read structs in place (Linux 6.2).
const CAST: &str = "bpf_rdonly_cast";

/// A function of the allocator with which every program may have entries of maps allocated (Linux 6.1).
const SAFE_ALLOCATOR: &str = "bpf_mem_alloc_init";

/// `RDONLY_CAST` of bpf/kernel.h
const RDONLY_CAST: i32 = 0x7f00_c457;

/// `SESSION_IS_RETURN` of bpf/functions.bpf.c
const SESSION_IS_RETURN: i32 = 0x7f00_c458;
