//! Calls of `bpf(2)` that attach programs: links to probes, functions, iterators and perf events, and programs of cgroups.
//! `probes.rs`, `program.rs` and `cgroup.rs` call them; `call.rs` has the calls for maps and programs.
#![allow(unsafe_code)]

use super::call::{bpf, bpf_fd, length};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `BPF_LINK_CREATE` and `BPF_ITER_CREATE`
#[repr(C)]
#[derive(Default)]
struct LinkAttributes {
    prog_or_link_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

impl LinkAttributes {
    fn of(program: BorrowedFd<'_>, attach_type: u32) -> Self {
        Self {
            prog_or_link_fd: program.as_raw_fd() as u32,
            attach_type,
            ..Self::default()
        }
    }
}

/// `BPF_LINK_CREATE` for many offsets in a file.
#[repr(C)]
#[derive(Default)]
struct UserProbesAttributes {
    link: LinkAttributes,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    flags: u32,
    pid: u32,
    pad: u32,
}

/// `BPF_LINK_CREATE` for many kernel functions.
#[repr(C)]
#[derive(Default)]
struct KernelProbesAttributes {
    link: LinkAttributes,
    flags: u32,
    cnt: u32,
    syms: u64,
    addrs: u64,
    cookies: u64,
}

/// `BPF_LINK_CREATE` for the function that a program was loaded for.
#[repr(C)]
#[derive(Default)]
struct TracedAttributes {
    link: LinkAttributes,
    target_btf_id: u32,
    pad: u32,
    cookie: u64,
}

/// `BPF_LINK_CREATE` for a perf event.
#[repr(C)]
#[derive(Default)]
struct PerfLinkAttributes {
    link: LinkAttributes,
    bpf_cookie: u64,
}

/// `BPF_PROG_ATTACH` and `BPF_PROG_DETACH`
#[repr(C)]
#[derive(Default)]
struct AttachAttributes {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
    replace_bpf_fd: u32,
}

/// `BPF_PROG_QUERY`
#[repr(C)]
#[derive(Default)]
struct QueryAttributes {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    pad: u32,
}

pub(super) fn create_iterator_link(program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkAttributes::of(program, TRACE_ITER);
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

pub(super) fn create_iterator(link: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkAttributes::of(link, 0);
    // SAFETY: these attributes hold no pointers; the kernel reads only the first two fields, and the rest is 0.
    unsafe { bpf_fd(ITER_CREATE, &mut attributes) }
}

/// Attaches a program to offsets in a file, each with its cookie.
pub(super) fn link_user_probes(
    program: BorrowedFd<'_>,
    attach_type: u32,
    path: &CStr,
    offsets: &[u64],
    cookies: &[u64],
    flags: u32,
    pid: u32,
) -> Result<OwnedFd, Errno> {
    if offsets.len() != cookies.len() {
        return Err(Errno::INVAL);
    }
    let mut attributes = UserProbesAttributes {
        link: LinkAttributes::of(program, attach_type),
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        cnt: length(offsets.len())?,
        flags,
        pid,
        ..UserProbesAttributes::default()
    };
    // SAFETY: `path` is a C string, `offsets` and `cookies` are slices of `cnt` numbers each, as checked above; all
    // live until the call returns, and the kernel only reads.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to kernel functions, each with its cookie.
pub(super) fn link_kernel_probes(
    program: BorrowedFd<'_>,
    attach_type: u32,
    names: &[&CStr],
    cookies: &[u64],
    flags: u32,
) -> Result<OwnedFd, Errno> {
    if names.len() != cookies.len() {
        return Err(Errno::INVAL);
    }
    let pointers: Vec<u64> = names.iter().map(|name| name.as_ptr() as u64).collect();
    let mut attributes = KernelProbesAttributes {
        link: LinkAttributes::of(program, attach_type),
        flags,
        cnt: length(names.len())?,
        syms: pointers.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        ..KernelProbesAttributes::default()
    };
    // SAFETY: `syms` points at `cnt` pointers to C strings, `cookies` at as many numbers; all live until the call
    // returns, and the kernel only reads.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to the function that it was loaded for (with a cookie: Linux 5.19).
pub(super) fn link_traced(program: BorrowedFd<'_>, attach_type: u32, cookie: u64) -> Result<OwnedFd, Errno> {
    let mut attributes = TracedAttributes {
        link: LinkAttributes::of(program, attach_type),
        cookie,
        ..TracedAttributes::default()
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to a perf event (Linux 5.15).
pub(super) fn link_perf_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> Result<OwnedFd, Errno> {
    let mut attributes = PerfLinkAttributes {
        link: LinkAttributes {
            target_fd: event.as_raw_fd() as u32,
            ..LinkAttributes::of(program, PERF_EVENT)
        },
        bpf_cookie: cookie,
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to a cgroup, in addition to other programs, until the link is closed (Linux 5.7).
pub(super) fn link_cgroup(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    attach_type: u32,
) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkAttributes {
        target_fd: cgroup.as_raw_fd() as u32,
        ..LinkAttributes::of(program, attach_type)
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to a cgroup in addition to other programs, or replaces one that is attached there.
pub(super) fn attach(
    target: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    replaced: Option<BorrowedFd<'_>>,
    attach_type: u32,
) -> Result<(), Errno> {
    let mut attributes = AttachAttributes {
        target_fd: target.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type,
        attach_flags: ALLOW_MULTI,
        ..AttachAttributes::default()
    };
    if let Some(replaced) = replaced {
        attributes.attach_flags |= REPLACE;
        attributes.replace_bpf_fd = replaced.as_raw_fd() as u32;
    }
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf(PROG_ATTACH, &mut attributes) }.map(drop)
}

pub(super) fn detach(target: BorrowedFd<'_>, program: BorrowedFd<'_>, attach_type: u32) -> Result<(), Errno> {
    let mut attributes = AttachAttributes {
        target_fd: target.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type,
        ..AttachAttributes::default()
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf(PROG_DETACH, &mut attributes) }.map(drop)
}

/// Writes the ids of the programs attached directly to a cgroup into `ids`. Returns their number and their attach
/// flags.
/// `ENOSPC` if `ids` is too short.
pub(super) fn query(
    target: BorrowedFd<'_>,
    attach_type: u32,
    ids: &mut [u32],
) -> Result<(usize, u32), Errno> {
    let mut attributes = QueryAttributes {
        target_fd: target.as_raw_fd() as u32,
        attach_type,
        prog_ids: ids.as_mut_ptr() as u64,
        prog_cnt: length(ids.len())?,
        ..QueryAttributes::default()
    };
    // SAFETY: `prog_ids` points to `prog_cnt` numbers, borrowed mutably until the call returns.
    unsafe { bpf(PROG_QUERY, &mut attributes) }?;
    Ok((attributes.prog_cnt as usize, attributes.attach_flags))
}

/// `enum bpf_cmd`
const PROG_ATTACH: libc::c_int = 8;
const PROG_DETACH: libc::c_int = 9;
const PROG_QUERY: libc::c_int = 16;
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;

/// `BPF_TRACE_ITER` of `enum bpf_attach_type`
pub(super) const TRACE_ITER: u32 = 28;
/// `BPF_PERF_EVENT`, likewise (Linux 5.15)
const PERF_EVENT: u32 = 41;
/// `BPF_CGROUP_SOCK_OPS`, likewise
pub(super) const CGROUP_SOCK_OPS: u32 = 3;

/// `BPF_F_ALLOW_MULTI`: other programs may be attached to the same cgroup, and to those below.
pub(super) const ALLOW_MULTI: u32 = 1 << 1;
/// `BPF_F_REPLACE` (Linux 5.6)
const REPLACE: u32 = 1 << 2;

// `union bpf_attr` has no padding, so these must not have any.
const _: () = assert!(size_of::<LinkAttributes>() == 16 && size_of::<PerfLinkAttributes>() == 24);
const _: () = assert!(size_of::<UserProbesAttributes>() == 64 && size_of::<KernelProbesAttributes>() == 48);
const _: () = assert!(size_of::<AttachAttributes>() == 20 && size_of::<QueryAttributes>() == 32);
