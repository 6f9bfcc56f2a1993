//! The ends of connections as text.

use sockeye_output::address::push_bracketed;
use sockeye_trace::Endpoint;

/// Returns `192.0.2.1:80` or `[2001:db8::1]:80`.
pub(crate) fn text(end: Endpoint) -> String {
    let mut out = Vec::new();
    push_bracketed(&mut out, end.ip);
    format!("{}:{}", String::from_utf8_lossy(&out), end.port)
}
