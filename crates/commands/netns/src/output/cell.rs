//! The cells of a table of network namespaces.

use super::column::NetnsColumn;
use sockeye_model::{AgeFrom, Namespace, Process};
use sockeye_output::number::{push_decimal, push_time_us};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;

/// Appends a cell, nothing if its value is absent.
pub(super) fn push(out: &mut Vec<u8>, column: NetnsColumn, namespace: &Namespace) -> Tint {
    use NetnsColumn as C;
    let mut number = |value: Option<u64>| {
        if let Some(value) = value {
            push_decimal(out, value);
        }
    };
    match column {
        C::Name => return push_name(out, namespace),
        C::Container => push_clean(out, namespace.container.as_deref().unwrap_or_default().as_bytes()),
        C::Id => {
            if let Some(id) = namespace.id {
                out.extend_from_slice(id.to_string().as_bytes());
            }
        }
        C::Inode => number(Some(namespace.inode.0.into())),
        C::Pids => {
            number(namespace.processes.map(u64::from));
            if namespace.is_leaked() == Some(true) {
                return Tint::Yellow;
            }
        }
        C::Threads => number(namespace.threads.map(u64::from)),
        C::Sockets => number(namespace.sockets),
        C::Interfaces => number(namespace.interfaces.map(u64::from)),
        C::Age => {
            if let Some(age) = namespace.age {
                match age.from {
                    AgeFrom::Mount => {}
                    AgeFrom::Held => out.push(b'>'),
                    AgeFrom::Process => out.push(b'~'),
                }
                push_age(out, age.seconds);
            }
        }
        C::Own => push_yes(out, Some(namespace.is_own)),
        C::Leaked => push_yes(out, namespace.is_leaked()),
        C::KeptBy => push_keepers(out, namespace),
    }
    Tint::None
}

/// All its names; without any, what it is called.
fn push_name(out: &mut Vec<u8>, namespace: &Namespace) -> Tint {
    for (nth, name) in namespace.names.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push_clean(out, name.as_os_str().as_encoded_bytes());
    }
    match &namespace.called {
        _ if !namespace.names.is_empty() => Tint::None,
        Some(called) => {
            push_clean(out, called.as_bytes());
            Tint::Dim
        }
        None if namespace.is_own => {
            out.extend_from_slice(b"(ours)");
            Tint::Dim
        }
        None => Tint::None,
    }
}

fn push_age(out: &mut Vec<u8>, seconds: u64) {
    // Tenths of a second would be made up.
    if seconds < 60 {
        push_decimal(out, seconds);
        out.push(b's');
    } else {
        push_time_us(out, seconds.saturating_mul(1_000_000));
    }
}

fn push_yes(out: &mut Vec<u8>, value: Option<bool>) {
    if let Some(value) = value {
        out.extend_from_slice(if value { b"yes" } else { b"no" });
    }
}

/// How many names, mounts, descriptors and processes hold it.
pub(super) fn keepers_of(namespace: &Namespace) -> u64 {
    let keepers = &namespace.keepers;
    namespace.names.len() as u64
        + keepers.mounts.total
        + keepers.descriptors.total
        + keepers.threads.total
        + keepers.sockets.total
}

/// Appends `name web1, mount /x of 123/dockerd, fd 7 of 123/prog, 3 sockets of 123/prog`.
pub(super) fn push_keepers(out: &mut Vec<u8>, namespace: &Namespace) {
    let keepers = &namespace.keepers;
    let mut list = List { out, shown: 0 };
    for name in &namespace.names {
        list.next(|out| {
            out.extend_from_slice(b"name ");
            push_clean(out, name.as_os_str().as_encoded_bytes());
        });
    }
    for mount in &keepers.mounts.first {
        list.next(|out| {
            out.extend_from_slice(b"mount ");
            push_clean(out, &mount.path);
            if let Some(process) = &mount.process {
                out.extend_from_slice(b" of ");
                push_process(out, process);
            }
        });
    }
    for held in &keepers.descriptors.first {
        list.next(|out| {
            out.extend_from_slice(b"fd ");
            push_decimal(out, held.fd.0.into());
            out.extend_from_slice(b" of ");
            push_process(out, &held.process);
        });
    }
    for thread in &keepers.threads.first {
        list.next(|out| {
            out.extend_from_slice(b"thread ");
            push_decimal(out, thread.tid.0.into());
            out.extend_from_slice(b" of ");
            push_process(out, &thread.process);
        });
    }
    for held in &keepers.sockets.first {
        list.next(|out| {
            push_decimal(out, held.sockets);
            out.extend_from_slice(if held.sockets == 1 {
                b" socket"
            } else {
                b" sockets"
            });
            out.extend_from_slice(b" of ");
            push_process(out, &held.process);
        });
    }
    let shown = list.shown.min(SHOWN_MAX);
    let all = keepers_of(namespace);
    if all > shown {
        out.extend_from_slice(b" and ");
        push_decimal(out, all - shown);
        out.extend_from_slice(b" more");
    } else if all == 0 && namespace.is_leaked() == Some(true) {
        out.extend_from_slice(NOTHING_SEEN);
    }
}

/// A list of which only the beginning is shown.
struct List<'a> {
    out: &'a mut Vec<u8>,
    shown: u64,
}

impl List<'_> {
    fn next(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        if self.shown < SHOWN_MAX {
            if self.shown > 0 {
                self.out.extend_from_slice(b", ");
            }
            push(self.out);
        }
        self.shown += 1;
    }
}

fn push_process(out: &mut Vec<u8>, process: &Process) {
    push_decimal(out, process.pid.0.into());
    if !process.comm.as_bytes().is_empty() {
        out.push(b'/');
        push_clean(out, process.comm.as_bytes());
    }
}

const SHOWN_MAX: u64 = 4;
const NOTHING_SEEN: &[u8] = b"nothing that can be seen (the kernel, or rights are missing)";

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{
        Age, Comm, DescriptorKeeper, Fd, MountKeeper, NetnsInode, NetnsName, Pid, SocketKeeper, ThreadKeeper,
    };

    fn process() -> Process {
        Process {
            pid: Pid(123),
            pgid: None,
            comm: Comm::new(b"prog\x1b"),
        }
    }

    #[track_caller]
    fn check(namespace: &Namespace, column: NetnsColumn, expected: &str) {
        let mut out = Vec::new();
        push(&mut out, column, namespace);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_keeps_it() {
        let mut namespace = Namespace::new(NetnsInode(1));
        check(&namespace, NetnsColumn::KeptBy, "");
        (namespace.processes, namespace.threads) = (Some(0), Some(0));
        check(
            &namespace,
            NetnsColumn::KeptBy,
            "nothing that can be seen (the kernel, or rights are missing)",
        );
        namespace.names.push(NetnsName::of_file("web\n1").unwrap());
        namespace.keepers.mounts.push(MountKeeper {
            process: Some(process()),
            path: (*b"/x").into(),
        });
        let keepers = &mut namespace.keepers;
        keepers.descriptors.push(DescriptorKeeper {
            process: process(),
            fd: Fd(7),
        });
        check(
            &namespace,
            NetnsColumn::KeptBy,
            "name web\\x0a1, mount /x of 123/prog\\x1b, fd 7 of 123/prog\\x1b",
        );
        let keepers = &mut namespace.keepers;
        keepers.threads.push(ThreadKeeper {
            process: process(),
            tid: Pid(124),
        });
        for _ in 0..10 {
            keepers.sockets.push(SocketKeeper {
                process: process(),
                sockets: 3,
            });
        }
        check(
            &namespace,
            NetnsColumn::KeptBy,
            "name web\\x0a1, mount /x of 123/prog\\x1b, fd 7 of 123/prog\\x1b, thread 124 of 123/prog\\x1b and 10 more",
        );
    }

    #[test]
    fn names_and_ages() {
        let mut namespace = Namespace::new(NetnsInode(1));
        check(&namespace, NetnsColumn::Name, "");
        namespace.is_own = true;
        check(&namespace, NetnsColumn::Name, "(ours)");
        namespace.called = Some("1/init".into());
        check(&namespace, NetnsColumn::Name, "1/init");
        namespace.names = ["b", "a\x1b"]
            .map(|name| NetnsName::of_file(name).unwrap())
            .to_vec();
        check(&namespace, NetnsColumn::Name, "b,a\\x1b");
        for (seconds, from, expected) in [
            (0, AgeFrom::Mount, "0s"),
            (61, AgeFrom::Held, ">1m1s"),
            (273_600, AgeFrom::Process, "~3d4h"),
        ] {
            namespace.age = Some(Age { seconds, from });
            check(&namespace, NetnsColumn::Age, expected);
        }
    }
}
