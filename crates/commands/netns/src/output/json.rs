//! A namespace as a JSON object: `docs/schema/namespaces.schema.json`, `$defs/namespace`.

use sockeye_model::{Few, Namespace, Process};
use sockeye_output::json::Object;
use sockeye_output::socket_json::push_process_fields;
use sockeye_output::text::push_json;

/// Appends a namespace with everything that is known of it.
pub(super) fn push(out: &mut Vec<u8>, namespace: &Namespace) {
    let mut object = Object::begin(out);
    object.number("inode", Some(namespace.inode.0));
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
    object.text("container", namespace.container.as_deref());
    object.text("called", namespace.called.as_deref());
    if let Some(id) = namespace.id {
        object.key("nsid").extend_from_slice(id.to_string().as_bytes());
    }
    object.boolean("own", Some(namespace.is_own));
    object.number("processes", namespace.processes);
    object.number("threads", namespace.threads);
    object.number("sockets", namespace.sockets);
    object.number("interfaces", namespace.interfaces);
    if let Some(age) = namespace.age {
        object.number("age_s", Some(age.seconds));
        object.word("age_from", age.from.name());
    }
    object.boolean("leaked", namespace.is_leaked());
    push_keepers(&mut object, namespace);
    object.end();
}

fn push_keepers(object: &mut Object<'_>, namespace: &Namespace) {
    let keepers = &namespace.keepers;
    let mut fields = object.object("keepers");
    push_few(&mut fields, "mounts", &keepers.mounts, |object, mount| {
        object.bytes("path", Some(&mount.path));
        push_process(object, mount.process.as_ref());
    });
    push_few(
        &mut fields,
        "descriptors",
        &keepers.descriptors,
        |object, held| {
            object.number("fd", Some(held.fd.0));
            push_process(object, Some(&held.process));
        },
    );
    push_few(&mut fields, "threads", &keepers.threads, |object, thread| {
        object.number("tid", Some(thread.tid.0));
        push_process(object, Some(&thread.process));
    });
    push_few(&mut fields, "sockets", &keepers.sockets, |object, held| {
        object.number("count", Some(held.sockets));
        push_process(object, Some(&held.process));
    });
    fields.end();
}

/// Appends `"NAME":{"total":N,"first":[...]}`, if there are any.
fn push_few<T>(object: &mut Object<'_>, name: &str, few: &Few<T>, push: impl Fn(&mut Object<'_>, &T)) {
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
        let mut fields = Object::begin(out);
        push(&mut fields, one);
        fields.end();
    }
    out.push(b']');
    fields.end();
}

fn push_process(object: &mut Object<'_>, process: Option<&Process>) {
    if let Some(process) = process {
        push_process_fields(object, process);
    }
}
