//! A socket as a JSON object: `docs/schema/sockets.schema.json`, `$defs/socket`.

use crate::address::{ethertype_name, netlink_name, push_ip};
use crate::column::TcpField;
use crate::json::Object;
use crate::number::{push_decimal, push_padded};
use sockeye_model::{
    CongestionInfo, Endpoint, Entry, Family, Memory, Names, Options, Process, Protocol, Queues, Socket,
    State, TcpInfo, TimerKind,
};

/// Appends a socket with everything that is known of it.
pub fn push(out: &mut Vec<u8>, entry: &Entry<'_>, names: &dyn Names) {
    let mut object = Object::begin(out);
    push_fields(&mut object, entry, names);
    object.end();
}

/// Appends its fields, among others.
pub fn push_fields(object: &mut Object<'_>, entry: &Entry<'_>, names: &dyn Names) {
    let socket = entry.socket;
    match socket.protocol {
        Protocol::Unknown(number) => {
            object.word("netid", "unknown");
            object.number("netid_number", Some(number));
        }
        protocol => object.word("netid", protocol.name()),
    }
    object.word("family", socket.family.name());
    if let Family::Unknown(number) = socket.family {
        object.number("family_number", Some(number));
    }
    object.word("state", socket.state.snake_name());
    if let State::Unknown(number) = socket.state {
        object.number("state_number", Some(number));
    }
    push_endpoint(object, "local", &socket.local, socket, names);
    push_endpoint(object, "peer", &socket.peer, socket, names);
    match socket.queues {
        Queues::Unknown => {}
        Queues::Data {
            receive_bytes,
            send_bytes,
        } => {
            object.number("recv_queue_bytes", Some(receive_bytes));
            object.number("send_queue_bytes", Some(send_bytes));
        }
        Queues::Accept { waiting, backlog } => {
            object.number("accept_queue", Some(waiting));
            object.number("accept_backlog", backlog);
        }
    }
    if let Some(index) = socket.interface {
        object.number("interface_index", Some(index.0));
        object.text("interface", names.interface(index, socket.netns));
    }
    if let Some(inode) = socket.netns {
        object.number("netns_inode", Some(inode.0));
        object.text("netns", names.netns(inode));
    }
    if let Some(uid) = socket.uid {
        object.number("uid", Some(uid.0));
        object.text("user", names.user(uid));
    }
    object.number("inode", socket.inode.map(|inode| inode.0));
    object.number("cookie", socket.cookie.map(|cookie| cookie.0));
    if let Some(timer) = socket.timer {
        let mut fields = object.object("timer");
        fields.word("kind", timer.kind.name());
        if let TimerKind::Unknown(number) = timer.kind {
            fields.number("kind_number", Some(number));
        }
        fields.number("expires_ms", Some(timer.expires_ms));
        fields.number("retransmits", Some(timer.retransmits));
        fields.end();
    }
    push_settings(object, socket);
    if let Some(id) = socket.cgroup {
        object.number("cgroup_id", Some(id.0));
        object.text("cgroup", names.cgroup(id));
    }
    if let Some(memory) = &socket.memory {
        push_memory(object, memory);
    }
    object.bytes(
        "congestion",
        socket.congestion.as_ref().map(sockeye_model::ShortText::as_bytes),
    );
    if let Some(info) = &socket.congestion_info {
        push_congestion_info(object, info);
    }
    object.bytes("ulp", socket.ulp.as_ref().map(sockeye_model::ShortText::as_bytes));
    if let Some(info) = &socket.tcp_info {
        push_tcp_info(object, info);
    }
    if let Some(info) = &socket.mptcp_info {
        let mut fields = object.object("mptcp_info");
        info.visit(|name, value| fields.number(name, value));
        fields.end();
    }
    object.number("references", socket.references);
    if let Some(owners) = entry.owners {
        let out = object.key("owners");
        out.push(b'[');
        for (nth, owner) in owners.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            push_process_fields(&mut fields, &owner.process);
            fields.number("fd", Some(owner.fd.0));
            fields.end();
        }
        out.push(b']');
    }
}

/// Appends `comm`, `pid` and `pgid`.
pub fn push_process_fields(object: &mut Object<'_>, process: &Process) {
    object.bytes("comm", Some(process.comm.as_bytes()));
    object.number("pid", Some(process.pid.0));
    object.number("pgid", process.pgid.map(|pgid| pgid.0));
}

/// Appends an endpoint as an object under `name`.
pub fn push_endpoint(
    object: &mut Object<'_>,
    key: &str,
    endpoint: &Endpoint,
    socket: &Socket,
    names: &dyn Names,
) {
    match endpoint {
        Endpoint::None => {}
        Endpoint::Inet { ip, port } => {
            let mut fields = object.object(key);
            let out = fields.key("ip");
            out.push(b'"');
            push_ip(out, *ip);
            out.push(b'"');
            fields.number("port", Some(port.0));
            fields.text("host", names.host(*ip));
            if port.0 != 0 {
                fields.text("service", names.service(socket.protocol, *port));
            }
            fields.end();
        }
        Endpoint::Unix { name, inode } => {
            let mut fields = object.object(key);
            if let Some(name) = name {
                let (is_abstract, name) = match name.as_bytes().strip_prefix(b"\0") {
                    Some(rest) => (true, rest),
                    None => (false, name.as_bytes()),
                };
                fields.bytes("name", Some(name));
                fields.boolean("abstract", Some(is_abstract));
            }
            fields.number("inode", inode.map(|inode| inode.0));
            fields.end();
        }
        Endpoint::Packet { ethertype, interface } => {
            let mut fields = object.object(key);
            fields.number("ethertype", Some(*ethertype));
            // The table's "*"; in JSON its own name says more.
            let name = if *ethertype == 3 {
                Some("all")
            } else {
                ethertype_name(*ethertype)
            };
            fields.text("ethertype_name", name);
            if let Some(index) = interface {
                fields.number("interface_index", Some(index.0));
                fields.text("interface", names.interface(*index, socket.netns));
            }
            fields.end();
        }
        Endpoint::Netlink {
            protocol,
            port,
            group,
        } => {
            let mut fields = object.object(key);
            fields.number("netlink_protocol", Some(*protocol));
            fields.text("netlink_protocol_name", netlink_name(*protocol));
            fields.number("port_id", Some(*port));
            fields.number("group", *group);
            fields.end();
        }
    }
}

fn push_settings(object: &mut Object<'_>, socket: &Socket) {
    object.number("mark", socket.mark);
    object.number("class_id", socket.class_id);
    object.number("tos", socket.tos);
    object.number("tclass", socket.tclass);
    if let Some(shutdown) = socket.shutdown {
        let mut fields = object.object("shutdown");
        fields.boolean("receive", Some(shutdown.receive));
        fields.boolean("send", Some(shutdown.send));
        fields.end();
    }
    object.boolean("v6only", socket.v6only);
    if let Some(options) = socket.options {
        let mut fields = object.object("options");
        fields.number("bits", Some(options.0));
        let out = fields.key("set");
        out.push(b'[');
        let set = Options::NAMES.iter().enumerate();
        for (nth, (_, name)) in set.filter(|(place, _)| options.is_set(*place)).enumerate() {
            out.extend_from_slice(if nth == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        }
        out.push(b']');
        fields.end();
    }
}

fn push_memory(object: &mut Object<'_>, memory: &Memory) {
    let mut fields = object.object("memory");
    for (name, value) in memory_fields(memory) {
        fields.number(name, value);
    }
    fields.end();
}

/// Each field with its name, in the kernel's order.
pub const fn memory_fields(memory: &Memory) -> [(&'static str, Option<u32>); 9] {
    // A field added to the model is an error here until it is listed.
    let Memory {
        rmem_alloc_bytes,
        rcvbuf_bytes,
        wmem_alloc_bytes,
        sndbuf_bytes,
        fwd_alloc_bytes,
        wmem_queued_bytes,
        optmem_bytes,
        backlog_bytes,
        drops,
    } = *memory;
    [
        ("rmem_alloc_bytes", rmem_alloc_bytes),
        ("rcvbuf_bytes", rcvbuf_bytes),
        ("wmem_alloc_bytes", wmem_alloc_bytes),
        ("sndbuf_bytes", sndbuf_bytes),
        ("fwd_alloc_bytes", fwd_alloc_bytes),
        ("wmem_queued_bytes", wmem_queued_bytes),
        ("optmem_bytes", optmem_bytes),
        ("backlog_bytes", backlog_bytes),
        ("drops", drops),
    ]
}

fn push_congestion_info(object: &mut Object<'_>, info: &CongestionInfo) {
    let mut fields = object.object("congestion_info");
    match *info {
        CongestionInfo::Vegas {
            enabled,
            rtt_count,
            rtt_us,
            min_rtt_us,
        } => {
            fields.word("algorithm", "vegas");
            fields.boolean("enabled", Some(enabled));
            fields.number("rtt_count", Some(rtt_count));
            fields.number("rtt_us", Some(rtt_us));
            fields.number("min_rtt_us", Some(min_rtt_us));
        }
        CongestionInfo::Dctcp {
            enabled,
            ce_state,
            alpha_1024ths,
            ecn_bytes,
            total_bytes,
        } => {
            fields.word("algorithm", "dctcp");
            fields.boolean("enabled", Some(enabled));
            fields.number("ce_state", Some(ce_state));
            fields.number("alpha_1024ths", Some(alpha_1024ths));
            fields.number("ecn_bytes", Some(ecn_bytes));
            fields.number("total_bytes", Some(total_bytes));
        }
        CongestionInfo::Bbr {
            bandwidth_bytes_per_s,
            min_rtt_us,
            pacing_gain_256ths,
            cwnd_gain_256ths,
        } => {
            fields.word("algorithm", "bbr");
            fields.number("bandwidth_bytes_per_s", Some(bandwidth_bytes_per_s));
            fields.number("min_rtt_us", Some(min_rtt_us));
            fields.number("pacing_gain_256ths", Some(pacing_gain_256ths));
            fields.number("cwnd_gain_256ths", Some(cwnd_gain_256ths));
        }
    }
    fields.end();
}

/// The fields by the model's names; `ca_state` is a word, `delivery_rate_app_limited` a boolean.
fn push_tcp_info(object: &mut Object<'_>, info: &TcpInfo) {
    let out = object.key("tcp_info");
    let start = out.len();
    // Room for all at once: the longest row is what this has to be fast for.
    out.reserve(TcpField::COUNT * 56);
    let mut place = 0;
    info.visit(|_, value| {
        let (key, len) = &TCP_KEYS[place];
        if let Some(value) = value {
            push_padded(out, key, *len);
            if place == CA_STATE.place() {
                out.push(b'"');
                crate::cell::push_ca_state(out, value);
                out.push(b'"');
            } else if place == APP_LIMITED.place() {
                out.extend_from_slice(if value != 0 { b"true" } else { b"false" });
            } else {
                push_decimal(out, value);
            }
        }
        place += 1;
    });
    if out.len() == start {
        out.push(b'{');
    } else {
        out[start] = b'{';
    }
    out.push(b'}');
}

const CA_STATE: TcpField = TcpField::named("ca_state");
const APP_LIMITED: TcpField = TcpField::named("delivery_rate_app_limited");

/// `,"name":` of each field of tcp_info, padded, and its length.
static TCP_KEYS: [([u8; 32], usize); TcpField::COUNT] = {
    let mut keys = [([0; 32], 0); TcpField::COUNT];
    let mut place = 0;
    while place < keys.len() {
        let name = TcpInfo::NAMES[place].as_bytes();
        let key = &mut keys[place];
        (key.0[0], key.0[1]) = (b',', b'"');
        let mut at = 0;
        while at < name.len() {
            key.0[at + 2] = name[at];
            at += 1;
        }
        (key.0[at + 2], key.0[at + 3], key.1) = (b'"', b':', at + 4);
        place += 1;
    }
    keys
};
