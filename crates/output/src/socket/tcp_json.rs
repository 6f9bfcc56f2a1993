//! tcp_info and the state of congestion control as JSON objects.

use super::tcp_field::{TcpField, push_tcp_value};
use crate::json::Object;
use crate::number::push_padded;
use sockeye_model::{CongestionInfo, TcpInfo};

/// Appends `congestion_info`.
pub(super) fn push_congestion_info(object: &mut Object<'_>, info: &CongestionInfo) {
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

/// Appends `tcp_info`, with the model's names; `ca_state` is a word, `delivery_rate_app_limited` a boolean.
pub(super) fn push_tcp_info(object: &mut Object<'_>, info: &TcpInfo) {
    let out = object.key("tcp_info");
    let start = out.len();
    // Reserved for all fields at once: tcp_info is the largest part of a row.
    out.reserve(TcpField::COUNT * 56);
    let mut index = 0;
    info.visit(|_, value| {
        let (key, len) = &TCP_KEYS[index];
        if let Some(value) = value {
            push_padded(out, key, *len);
            push_tcp_value(out, index, value, b"\"");
        }
        index += 1;
    });
    if out.len() == start {
        out.push(b'{');
    } else {
        out[start] = b'{';
    }
    out.push(b'}');
}

/// `,"name":` of each field of tcp_info, padded, and its length.
static TCP_KEYS: [([u8; 32], usize); TcpField::COUNT] = {
    let mut keys = [([0; 32], 0); TcpField::COUNT];
    let mut index = 0;
    while index < keys.len() {
        let name = TcpInfo::NAMES[index].as_bytes();
        let key = &mut keys[index];
        (key.0[0], key.0[1]) = (b',', b'"');
        let mut at = 0;
        while at < name.len() {
            key.0[at + 2] = name[at];
            at += 1;
        }
        (key.0[at + 2], key.0[at + 3], key.1) = (b'"', b':', at + 4);
        index += 1;
    }
    keys
};
