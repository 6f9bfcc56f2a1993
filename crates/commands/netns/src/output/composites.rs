//! Values of a namespace with several parts: names, id, processes, age, holders.

use super::names::count;
use super::{Namespaces, first_name};
use sockeye_model::{AgeFrom, Namespace, NetnsHolders, Process, TruncatedList};
use sockeye_output::JsonObject;
use sockeye_output::csv::Line;
use sockeye_output::listing::{Composite, SortValue};
use sockeye_output::number::{push_decimal, push_time_us};
use sockeye_output::socket::push_process_fields;
use sockeye_output::table::Tint;
use sockeye_output::text::{push_clean, push_json};

/// The names; the label of a namespace without one.
pub(super) struct Name;

impl Composite<Namespaces> for Name {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        push_names(out, namespace);
        match &namespace.label {
            _ if !namespace.names.is_empty() => Tint::None,
            Some(label) => {
                push_clean(out, label.as_bytes());
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
        object.text("label", namespace.label.as_deref());
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

/// The id (nsid) in the current namespace. It may be negative.
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

/// The number of processes; a table highlights a leaked namespace.
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

/// The age, and from what it is known.
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

/// What holds the namespace: names, mounts, descriptors, threads, sockets.
pub(super) struct Holders;

impl Composite<Namespaces> for Holders {
    fn push_cell(&self, out: &mut Vec<u8>, namespace: &&Namespace) -> Tint {
        push_holders(out, namespace);
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, namespace: &&Namespace) {
        line.outside(|out| push_holders(out, namespace));
    }

    fn push_json(&self, object: &mut JsonObject<'_>, namespace: &&Namespace) {
        push_holders_json(object, &namespace.holders);
    }

    fn sort_value(&self, namespace: &&Namespace) -> Option<SortValue> {
        Some(SortValue::Number(holder_count(namespace)))
    }
}

/// Returns the number of names, mounts, descriptors, threads and processes with sockets that hold it.
fn holder_count(namespace: &Namespace) -> u64 {
    let holders = &namespace.holders;
    namespace.names.len() as u64
        + holders.mounts.total
        + holders.descriptors.total
        + holders.threads.total
        + holders.sockets.total
}

/// Appends `name web1, mount /x of 123/dockerd, fd 7 of 123/prog, 3 sockets of 123/prog`.
fn push_holders(out: &mut Vec<u8>, namespace: &Namespace) {
    let holders = &namespace.holders;
    let mut list = List { out, len: 0 };
    for name in &namespace.names {
        let name = name.as_os_str().as_encoded_bytes();
        list.push("name ", |out| push_clean(out, name), None);
    }
    for mount in &holders.mounts.first {
        let process = mount.process.as_ref();
        list.push("mount ", |out| push_clean(out, &mount.path), process);
    }
    for descriptor in &holders.descriptors.first {
        let fd = descriptor.fd.0.into();
        list.push("fd ", |out| push_decimal(out, fd), Some(&descriptor.process));
    }
    for thread in &holders.threads.first {
        let tid = thread.tid.0.into();
        list.push("thread ", |out| push_decimal(out, tid), Some(&thread.process));
    }
    for holder in &holders.sockets.first {
        let sockets = count(holder.sockets, "socket");
        list.push(&sockets, |_| {}, Some(&holder.process));
    }
    let shown = list.len.min(SHOWN_MAX);
    let all = holder_count(namespace);
    if all > shown {
        out.extend_from_slice(format!(" and {} more", all - shown).as_bytes());
    } else if all == 0 && namespace.is_leaked() == Some(true) {
        out.extend_from_slice(NOTHING_FOUND);
    }
}

/// A list of holders of which only the first [`SHOWN_MAX`] are written.
struct List<'a> {
    out: &'a mut Vec<u8>,
    len: u64,
}

impl List<'_> {
    /// Appends `kind`, an identifier and ` of PID/NAME`.
    fn push(&mut self, kind: &str, push_id: impl FnOnce(&mut Vec<u8>), process: Option<&Process>) {
        if self.len < SHOWN_MAX {
            if self.len > 0 {
                self.out.extend_from_slice(b", ");
            }
            self.out.extend_from_slice(kind.as_bytes());
            push_id(self.out);
            if let Some(process) = process {
                self.out.extend_from_slice(b" of ");
                push_process(self.out, process);
            }
        }
        self.len += 1;
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
const NOTHING_FOUND: &[u8] = b"nothing found (it may be the kernel, or need more rights)";

fn push_holders_json(object: &mut JsonObject<'_>, holders: &NetnsHolders) {
    let mut fields = object.object("holders");
    push_list(&mut fields, "mounts", &holders.mounts, |object, mount| {
        object.bytes("path", Some(&mount.path));
        mount.process.as_ref()
    });
    push_list(&mut fields, "descriptors", &holders.descriptors, |object, one| {
        object.number("fd", Some(one.fd.0));
        Some(&one.process)
    });
    push_list(&mut fields, "threads", &holders.threads, |object, thread| {
        object.number("tid", Some(thread.tid.0));
        Some(&thread.process)
    });
    push_list(&mut fields, "sockets", &holders.sockets, |object, one| {
        object.number("count", Some(one.sockets));
        Some(&one.process)
    });
    fields.end();
}

/// Appends `"NAME":{"total":N,"first":[...]}` if the list is not empty. `push` appends the fields of a holder, and returns
/// its process.
fn push_list<T>(
    object: &mut JsonObject<'_>,
    name: &str,
    list: &TruncatedList<T>,
    push: impl for<'a> Fn(&mut JsonObject<'_>, &'a T) -> Option<&'a Process>,
) {
    if list.total == 0 {
        return;
    }
    let mut fields = object.object(name);
    fields.number("total", Some(list.total));
    let out = fields.key("first");
    out.push(b'[');
    for (index, holder) in list.first.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut fields = JsonObject::begin(out);
        if let Some(process) = push(&mut fields, holder) {
            push_process_fields(&mut fields, process);
        }
        fields.end();
    }
    out.push(b']');
    fields.end();
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
    fn holders_beyond_four_are_counted() {
        let mut namespace = Namespace::new(NetnsInode(1));
        check(&namespace, &Holders, "");
        (namespace.processes, namespace.threads) = (Some(0), Some(0));
        check(
            &namespace,
            &Holders,
            "nothing found (it may be the kernel, or need more rights)",
        );
        namespace.names.push(NetnsName::of_file("web\n1").unwrap());
        namespace.holders.mounts.push(MountHolder {
            process: Some(process()),
            path: (*b"/x").into(),
        });
        let holders = &mut namespace.holders;
        holders.descriptors.push(DescriptorHolder {
            process: process(),
            fd: Fd(7),
        });
        check(
            &namespace,
            &Holders,
            "name web\\x0a1, mount /x of 123/prog\\x1b, fd 7 of 123/prog\\x1b",
        );
        let holders = &mut namespace.holders;
        holders.threads.push(ThreadHolder {
            process: process(),
            tid: Pid(124),
        });
        for _ in 0..10 {
            holders.sockets.push(SocketHolder {
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
    fn names_come_before_labels_and_ages_show_their_origin() {
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
