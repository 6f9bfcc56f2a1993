//! Values of a namespace with parts: names, id, processes, age, holders.

use super::{Namespaces, first_name};
use sockeye_model::{AgeFrom, Namespace, Process, TruncatedList};
use sockeye_output::JsonObject;
use sockeye_output::csv::Line;
use sockeye_output::listing::{Composite, SortValue};
use sockeye_output::number::{push_decimal, push_time_us};
use sockeye_output::socket::push_process_fields;
use sockeye_output::table::Tint;
use sockeye_output::text::{push_clean, push_json};

/// The names; without any, the container or the first process.
pub(super) struct Name;

impl Composite<Namespaces> for Name {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        push_names(out, namespace);
        match &namespace.label {
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

    fn push_csv(&self, line: &mut Line<'_>, namespace: &&Namespace) {
        line.outside(|out| push_names(out, namespace));
        line.text(namespace.label.as_deref());
    }

    fn push_json(&self, object: &mut JsonObject<'_>, namespace: &&Namespace) {
        let name = namespace.names.first();
        object.bytes("name", name.map(|name| name.as_os_str().as_encoded_bytes()));
        let out = object.key("names");
        out.push(b'[');
        for (nth, name) in namespace.names.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            push_json(out, name.as_os_str().as_encoded_bytes());
        }
        out.push(b']');
        object.text("called", namespace.label.as_deref());
    }

    fn sort_value(&self, namespace: &&Namespace) -> Option<SortValue> {
        let name = first_name(namespace)?;
        Some(SortValue::Natural(namespace.names.is_empty().into(), name.into()))
    }
}

fn push_names(out: &mut Vec<u8>, namespace: &Namespace) {
    for (nth, name) in namespace.names.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push_clean(out, name.as_os_str().as_encoded_bytes());
    }
}

/// The id in our own namespace. It may be negative.
pub(super) struct Id;

impl Composite<Namespaces> for Id {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        if let Some(id) = namespace.id {
            out.extend_from_slice(id.to_string().as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, namespace: &&Namespace) {
        line.number(namespace.id.and_then(|id| u64::try_from(id).ok()));
    }

    fn push_json(&self, object: &mut JsonObject<'_>, namespace: &&Namespace) {
        if let Some(id) = namespace.id {
            object.key("nsid").extend_from_slice(id.to_string().as_bytes());
        }
    }

    fn sort_value(&self, namespace: &&Namespace) -> Option<SortValue> {
        let id = namespace.id.and_then(|id| u64::try_from(id).ok());
        id.map(SortValue::Number)
    }
}

/// The number of processes; a table points out a namespace without any.
pub(super) struct Processes;

impl Composite<Namespaces> for Processes {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        if let Some(processes) = namespace.processes {
            push_decimal(out, processes.into());
        }
        if namespace.is_leaked() == Some(true) {
            Tint::Yellow
        } else {
            Tint::None
        }
    }

    fn push_csv(&self, line: &mut Line<'_>, namespace: &&Namespace) {
        line.number(namespace.processes);
    }

    fn push_json(&self, object: &mut JsonObject<'_>, namespace: &&Namespace) {
        object.number("processes", namespace.processes);
    }

    fn sort_value(&self, namespace: &&Namespace) -> Option<SortValue> {
        namespace.processes.map(|count| SortValue::Number(count.into()))
    }
}

/// The age, with how it is known.
pub(super) struct Age;

impl Composite<Namespaces> for Age {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        if let Some(age) = namespace.age {
            match age.from {
                AgeFrom::Mount => {}
                AgeFrom::Descriptor => out.push(b'>'),
                AgeFrom::Process => out.push(b'~'),
            }
            push_age(out, age.seconds);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, namespace: &&Namespace) {
        line.number(namespace.age.map(|age| age.seconds));
        line.word(namespace.age.map_or("", |age| age.from.name()));
    }

    fn push_json(&self, object: &mut JsonObject<'_>, namespace: &&Namespace) {
        if let Some(age) = namespace.age {
            object.number("age_s", Some(age.seconds));
            object.word("age_from", age.from.name());
        }
    }

    fn sort_value(&self, namespace: &&Namespace) -> Option<SortValue> {
        namespace.age.map(|age| SortValue::Number(age.seconds))
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

/// What holds the namespace open: names, mounts, descriptors, threads, sockets.
pub(super) struct Holders;

impl Composite<Namespaces> for Holders {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        push_keepers(out, namespace);
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, namespace: &&Namespace) {
        line.outside(|out| push_keepers(out, namespace));
    }

    fn push_json(&self, object: &mut JsonObject<'_>, namespace: &&Namespace) {
        push_holders_json(object, namespace);
    }

    fn sort_value(&self, namespace: &&Namespace) -> Option<SortValue> {
        Some(SortValue::Number(keepers_of(namespace)))
    }
}

/// How many names, mounts, descriptors and processes hold it.
fn keepers_of(namespace: &Namespace) -> u64 {
    let keepers = &namespace.holders;
    namespace.names.len() as u64
        + keepers.mounts.total
        + keepers.descriptors.total
        + keepers.threads.total
        + keepers.sockets.total
}

/// Appends `name web1, mount /x of 123/dockerd, fd 7 of 123/prog, 3 sockets of 123/prog`.
fn push_keepers(out: &mut Vec<u8>, namespace: &Namespace) {
    let keepers = &namespace.holders;
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

fn push_holders_json(object: &mut JsonObject<'_>, namespace: &Namespace) {
    let keepers = &namespace.holders;
    let mut fields = object.object("keepers");
    push_few(&mut fields, "mounts", &keepers.mounts, |object, mount| {
        object.bytes("path", Some(&mount.path));
        push_process_json(object, mount.process.as_ref());
    });
    push_few(
        &mut fields,
        "descriptors",
        &keepers.descriptors,
        |object, held| {
            object.number("fd", Some(held.fd.0));
            push_process_json(object, Some(&held.process));
        },
    );
    push_few(&mut fields, "threads", &keepers.threads, |object, thread| {
        object.number("tid", Some(thread.tid.0));
        push_process_json(object, Some(&thread.process));
    });
    push_few(&mut fields, "sockets", &keepers.sockets, |object, held| {
        object.number("count", Some(held.sockets));
        push_process_json(object, Some(&held.process));
    });
    fields.end();
}

/// Appends `"NAME":{"total":N,"first":[...]}`, if there are any.
fn push_few<T>(
    object: &mut JsonObject<'_>,
    name: &str,
    few: &TruncatedList<T>,
    push: impl Fn(&mut JsonObject<'_>, &T),
) {
    if few.total == 0 {
        return;
    }
    let mut fields = object.object(name);
    fields.number("total", Some(few.total));
    let out = fields.key("first");
    out.push(b'[');
    for (nth, one) in few.first.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut fields = JsonObject::begin(out);
        push(&mut fields, one);
        fields.end();
    }
    out.push(b']');
    fields.end();
}

fn push_process_json(object: &mut JsonObject<'_>, process: Option<&Process>) {
    if let Some(process) = process {
        push_process_fields(object, process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{
        Age as KnownAge, Comm, DescriptorHolder, Fd, MountHolder, NetnsInode, NetnsName, Pid, SocketHolder,
        ThreadHolder,
    };

    fn process() -> Process {
        Process {
            pid: Pid(123),
            pgid: None,
            comm: Comm::new(b"prog\x1b"),
        }
    }

    #[track_caller]
    fn check(namespace: &Namespace, cell: &dyn Composite<Namespaces>, expected: &str) {
        let mut out = Vec::new();
        cell.push_cell(&mut out, &namespace);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_keeps_it() {
        let mut namespace = Namespace::new(NetnsInode(1));
        check(&namespace, &Holders, "");
        (namespace.processes, namespace.threads) = (Some(0), Some(0));
        check(
            &namespace,
            &Holders,
            "nothing that can be seen (the kernel, or rights are missing)",
        );
        namespace.names.push(NetnsName::of_file("web\n1").unwrap());
        namespace.holders.mounts.push(MountHolder {
            process: Some(process()),
            path: (*b"/x").into(),
        });
        let keepers = &mut namespace.holders;
        keepers.descriptors.push(DescriptorHolder {
            process: process(),
            fd: Fd(7),
        });
        check(
            &namespace,
            &Holders,
            "name web\\x0a1, mount /x of 123/prog\\x1b, fd 7 of 123/prog\\x1b",
        );
        let keepers = &mut namespace.holders;
        keepers.threads.push(ThreadHolder {
            process: process(),
            tid: Pid(124),
        });
        for _ in 0..10 {
            keepers.sockets.push(SocketHolder {
                process: process(),
                sockets: 3,
            });
        }
        check(
            &namespace,
            &Holders,
            "name web\\x0a1, mount /x of 123/prog\\x1b, fd 7 of 123/prog\\x1b, thread 124 of 123/prog\\x1b and 10 more",
        );
    }

    #[test]
    fn names_and_ages() {
        let mut namespace = Namespace::new(NetnsInode(1));
        check(&namespace, &Name, "");
        namespace.is_own = true;
        check(&namespace, &Name, "(ours)");
        namespace.label = Some("1/init".into());
        check(&namespace, &Name, "1/init");
        namespace.names = ["b", "a\x1b"]
            .map(|name| NetnsName::of_file(name).unwrap())
            .to_vec();
        check(&namespace, &Name, "b,a\\x1b");
        for (seconds, from, expected) in [
            (0, AgeFrom::Mount, "0s"),
            (61, AgeFrom::Descriptor, ">1m1s"),
            (273_600, AgeFrom::Process, "~3d4h"),
        ] {
            namespace.age = Some(KnownAge { seconds, from });
            check(&namespace, &Age, expected);
        }
    }
}
