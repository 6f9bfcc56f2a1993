use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sockeye_sys::bpf::{LoadError, Loaded, Object, Parts, Program, Slot};
use sockeye_sys::mapped::Mapped;
use sockeye_wire::btf::relocation::{self, Relocation, Subject};
use sockeye_wire::btf::{Btf, Question, TypeKind};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What the running kernel says of its own types.
#[derive(Debug)]
pub(crate) struct Kernel {
    types: Types,
    path: PathBuf,
}

#[derive(Debug)]
enum Types {
    Mapped(Mapped),
    Read(Vec<u8>),
}

/// An object that fits this kernel.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) object: Object<'a>,
    /// What this kernel has not got of what the object asks for.
    pub(crate) missing: Vec<String>,
    /// The values of the enumerators asked for.
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

/// Why no BPF program of ours runs here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The kernel's types cannot be read.
    Types(PathBuf, Errno),
    /// They can be read, but not understood.
    Format(PathBuf, String),
    /// This kernel lacks something that no program of ours can do without.
    Lacks(&'static str),
    /// A run of a program failed.
    Run(Errno),
    /// What a program said makes no sense.
    UnexpectedReply(&'static str),
    /// The program could not be loaded; what this kernel has not got of what it asks for.
    Load(LoadError, Vec<String>),
}

impl Kernel {
    /// Where a kernel with CONFIG_DEBUG_INFO_BTF shows its types.
    pub(crate) const TYPES: &'static str = "/sys/kernel/btf/vmlinux";

    pub(crate) fn read(path: &Path) -> Result<Self, Unavailable> {
        let read = || {
            // A name may stand for anything: opening a FIFO must not wait.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
            let bytes = file.metadata()?.len() as usize;
            // Only the kernel's own file may be mapped, and only by newer kernels.
            if let Ok(mapped) = Mapped::kernel_types(file.as_fd()) {
                return Ok(Types::Mapped(mapped));
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
            }),
            Err(error) => Err(Unavailable::Types(
                path.to_owned(),
                Errno::from_io_error(&error).unwrap_or(Errno::IO),
            )),
        }
    }

    fn types(&self) -> &[u8] {
        match &self.types {
            Types::Mapped(mapped) => mapped.bytes(),
            Types::Read(types) => types,
        }
    }

    /// Reads an object, and fills in what it wants to know of this kernel; asks for enumerators beside.
    pub(crate) fn prepare<'a>(
        &self,
        elf: &'a [u8],
        enumerators: &[&'static str],
    ) -> Result<Prepared<'a>, Unavailable> {
        let (prepared, _) = self.prepare_all(elf, enumerators, &[])?;
        Ok(prepared)
    }

    /// As [`Kernel::prepare`], for an iterator; beside it comes the BTF id of the kernel's function of this name, which
    /// stands for what is iterated over.
    pub(crate) fn prepare_iterator<'a>(
        &self,
        elf: &'a [u8],
        iterated: &'static str,
    ) -> Result<(Prepared<'a>, u32), Unavailable> {
        let (prepared, ids) = self.prepare_all(elf, &[], &[iterated])?;
        match ids.first() {
            Some(Some(id)) => Ok((prepared, *id)),
            _ => Err(Unavailable::Lacks(iterated)),
        }
    }

    /// As [`Kernel::prepare`], and loads these of its programs with all its maps.
    pub(crate) fn load(&self, elf: &[u8], parts: &Parts<'_>) -> Result<Loaded, Unavailable> {
        let mut functions: Vec<&str> = parts
            .programs
            .iter()
            .filter_map(|(_, kind)| kind.kernel_function())
            .collect();
        functions.push("bpf_session_is_return");
        let (mut prepared, ids) = self.prepare_all(elf, &[], &functions)?;
        // Without it the verifier refuses the programs that call it, and those alone.
        if let Some(Some(id)) = ids.last() {
            prepared.object.call_kernel_function(SESSION_IS_RETURN, *id);
        }
        let id = |function: &str| {
            let place = functions.iter().position(|name| *name == function)?;
            ids.get(place).copied().flatten()
        };
        prepared
            .object
            .load(parts, id)
            .map_err(|error| Unavailable::Load(error, prepared.missing))
    }

    fn prepare_all<'a>(
        &self,
        elf: &'a [u8],
        enumerators: &[&'static str],
        functions: &[&str],
    ) -> Result<(Prepared<'a>, Vec<Option<u32>>), Unavailable> {
        let broken =
            |error: &dyn fmt::Display| Unavailable::Load(LoadError::Object(error.to_string()), Vec::new());
        let mut object = Object::parse(elf).map_err(|error| Unavailable::Load(error, Vec::new()))?;
        let own = Btf::parse(object.types()).map_err(|error| broken(&error))?;
        let relocations = relocation::read(&own, object.types_ext()).map_err(|error| broken(&error))?;
        // Many instructions want the same.
        let mut questions = vec![Question::Type {
            kind: TypeKind::Func,
            name: "bpf_rdonly_cast",
        }];
        questions.extend(enumerators.iter().map(|name| Question::Enumerator {
            enumeration: None,
            name,
        }));
        let first_function = questions.len();
        questions.extend(functions.iter().map(|name| Question::Type {
            kind: TypeKind::Func,
            name,
        }));
        let mut places = HashMap::new();
        let of_question: Vec<usize> = relocations
            .iter()
            .map(|relocation| {
                let question = relocation.question();
                *places.entry(name(relocation)).or_insert_with(|| {
                    questions.push(question);
                    questions.len() - 1
                })
            })
            .collect();
        let format = |error: &dyn fmt::Display| Unavailable::Format(self.path.clone(), error.to_string());
        let answers = Btf::parse(self.types())
            .and_then(|types| types.answer(&questions))
            .map_err(|error| format(&error))?;
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
        match answers.type_id(0) {
            Some(id) => object.call_kernel_function(RDONLY_CAST, id.0),
            None if !object.calls(RDONLY_CAST) => {}
            None => return Err(Unavailable::Lacks("bpf_rdonly_cast (Linux 6.2)")),
        }
        let prepared = Prepared {
            object,
            missing,
            enumerators: (0..enumerators.len())
                .map(|place| answers.enumerator(place + 1))
                .collect(),
        };
        let ids = (0..functions.len())
            .map(|place| Some(answers.type_id(first_function + place)?.0))
            .collect();
        Ok((prepared, ids))
    }
}

/// What a relocation is about, as one would write it in C.
fn name(relocation: &Relocation<'_>) -> String {
    match &relocation.subject {
        Subject::Field { structure, path, .. } => format!("{structure}.{path}"),
        Subject::Type { name, .. } => (*name).to_owned(),
    }
}

impl Unavailable {
    /// Whether something forbids it.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let errno = match self {
            Self::Types(_, errno) | Self::Run(errno) | Self::Load(LoadError::System(_, errno), _) => *errno,
            _ => return false,
        };
        matches!(errno, Errno::PERM | Errno::ACCESS)
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Types(_, errno) | Self::Run(errno) => Some(errno),
            Self::Load(error, _) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types(path, error) => write!(f, "read {}: {error}", path.display()),
            Self::Format(path, problem) => write!(f, "read {}: {problem}", path.display()),
            Self::Run(errno) => write!(f, "run a BPF program: {errno}"),
            Self::UnexpectedReply(what) => {
                write!(f, "a BPF program said something that makes no sense: {what}")
            }
            Self::Lacks(what) => write!(f, "this kernel has no {what}"),
            // What is missing matters only to the verifier.
            Self::Load(error @ LoadError::Rejected(..), missing) if !missing.is_empty() => {
                write!(f, "{error}; this kernel has no {}", missing.join(", "))
            }
            Self::Load(error, _) if self.is_forbidden() => {
                write!(
                    f,
                    "{error}; it needs CAP_BPF and CAP_PERFMON: run as root, or grant them"
                )
            }
            Self::Load(error, _) => error.fmt(f),
        }
    }
}

/// Ten times what kernels have: whoever names another file may name one without an end.
const TYPES_BYTES_MAX: usize = 64 << 20;

/// `RDONLY_CAST` of bpf/kernel.h
const RDONLY_CAST: i32 = 0x7f00_c457;

/// `SESSION_IS_RETURN` of bpf/functions.bpf.c
const SESSION_IS_RETURN: i32 = 0x7f00_c458;
