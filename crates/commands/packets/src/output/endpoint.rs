//! The ends of connections as text and in JSON.

use sockeye_output::JsonObject;
use sockeye_output::address::{push_bracketed, push_ip};
use sockeye_trace::Endpoint;

/// Returns `192.0.2.1:80` or `[2001:db8::1]:80`.
pub(crate) fn text(end: Endpoint) -> String {
    let mut out = Vec::new();
    push_bracketed(&mut out, end.ip);
    format!("{}:{}", String::from_utf8_lossy(&out), end.port)
}

/// Appends `ip` and `port`.
pub(crate) fn push_json(fields: &mut JsonObject<'_>, end: Endpoint) {
    let out = fields.key("ip");
    out.push(b'"');
    push_ip(out, end.ip);
    out.push(b'"');
    fields.number("port", Some(end.port));
}
