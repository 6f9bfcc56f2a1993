//! Rows of TCP, UDP, RAW and MPTCP.

use super::level::SsLevel;
use super::line::{Line, push_address};
use super::row::SsRow;
use sockeye_model::{Endpoint, Family, InterfaceIndex, Options, Protocol, Socket, TimerKind};
use sockeye_output::number::push_decimal;
use std::net::IpAddr;

impl Line<'_> {
    #[inline]
    pub(super) fn inet(&mut self, row: &SsRow<'_>) {
        let socket = row.socket;
        self.state(netid(socket.protocol), socket);
        self.end(&socket.local, socket, socket.interface);
        self.end(&socket.peer, socket, None);
        self.owners(row.owners);
        if row.is_brief {
            return;
        }
        let layout = *self.layout;
        if layout.timers {
            self.timer(socket);
        }
        if layout.extended {
            self.details(socket);
            if let (Family::Inet6, Some(v6only)) = (socket.family, socket.v6only) {
                self.number(" v6only:", v6only.into());
            }
            self.shutdown(socket);
        }
        if layout.service_class {
            self.service_class(socket);
        }
        if layout.cgroup && socket.cgroup.is_some() {
            self.cgroup(socket);
        }
        if layout.options
            && let Some(options) = socket.options
        {
            self.options(options);
        }
        if layout.memory || (layout.info && socket.protocol != Protocol::Udp) {
            self.break_line();
            self.memory(socket);
            match socket.protocol {
                Protocol::Mptcp => self.mptcp(row),
                _ => self.tcp(row),
            }
        }
    }

    /// Appends address and port: two fields.
    #[inline]
    fn end(&mut self, end: &Endpoint, socket: &Socket, scope: Option<InterfaceIndex>) {
        if let Endpoint::Inet { ip, port } = *end {
            let is_wildcard = socket.family == Family::Inet6
                && socket.v6only != Some(true)
                && matches!(ip, IpAddr::V6(ip) if ip.is_unspecified());
            if is_wildcard {
                self.out().push(b'*');
            } else if let Some(name) = self.names.host(ip) {
                self.untrusted(name.as_bytes());
            } else if ip.is_ipv6() {
                self.out().push(b'[');
                push_address(self.out(), ip);
                self.out().push(b']');
            } else {
                push_address(self.out(), ip);
            }
            if let Some(scope) = scope {
                self.out().push(b'%');
                self.interface(scope, socket);
            }
            self.out().push(b':');
            self.columns.next();
            self.service(socket.protocol, port);
        } else {
            self.out().extend_from_slice(b"*:");
            self.columns.next();
            self.out().push(b'*');
        }
        self.columns.next();
    }

    fn timer(&mut self, socket: &Socket) {
        let Some(timer) = socket.timer else { return };
        self.text(" timer:(");
        let level = self.layout.level;
        self.text(match timer.kind {
            TimerKind::Unknown(DELAYED_ACK) if level >= SsLevel::V7_3 => "delack",
            TimerKind::Unknown(_) => "unknown",
            kind => kind.name(),
        });
        self.text(",");
        push_timer(self.out(), timer.expires_ms, level);
        self.number(",", timer.retransmits.into());
        self.text(")");
    }

    fn service_class(&mut self, socket: &Socket) {
        for (label, value) in [
            (" tos:", socket.tos.map(u32::from)),
            (" tclass:", socket.tclass.map(u32::from)),
            (" class_id:", socket.class_id),
        ] {
            match value {
                // `%#x` has no prefix before a 0.
                Some(0) => self.number(label, 0),
                Some(value) => self.text(&format!("{label}{value:#x}")),
                None => {}
            }
        }
    }

    fn options(&mut self, options: Options) {
        self.break_line_or_space();
        self.text("inet-sockopt: (");
        for (place, name) in OPTION_NAMES.iter().enumerate() {
            if options.is_set(place) {
                self.text(" ");
                self.text(name);
            }
        }
        self.text(")");
    }
}

const fn netid(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::UdpLite => "???",
        protocol => protocol.name(),
    }
}

/// Appends a time as ss's `print_ms_timer` does: minutes, seconds and milliseconds, without small units next to large ones.
/// That of 6.1 calls fractions of seconds milliseconds.
fn push_timer(out: &mut Vec<u8>, ms: u32, level: SsLevel) {
    let (minutes, seconds, millis) = (ms / 60_000, ms / 1000 % 60, ms % 1000);
    let millis = if minutes > 0 || seconds > 9 { 0 } else { millis };
    if minutes > 0 {
        push_decimal(out, minutes.into());
        out.extend_from_slice(b"min");
    }
    if seconds > 0 && minutes <= 9 {
        push_decimal(out, seconds.into());
        out.extend_from_slice(if millis > 0 { b"." } else { b"sec" });
    }
    if millis > 0 {
        let unit = if seconds > 0 && level >= SsLevel::V6_15 {
            "sec"
        } else {
            "ms"
        };
        out.extend_from_slice(format!("{millis:03}{unit}").as_bytes());
    }
}

/// `IDIAG_TIMER_DELACK`, since Linux 7.0.
const DELAYED_ACK: u8 = 5;

/// As [`Options::NAMES`], except one that ss spells differently.
const OPTION_NAMES: [&str; 11] = {
    let mut names = Options::NAMES;
    names[8] = "bind_addr_no_port";
    names
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_units_are_those_of_ss() {
        for (ms, level, expected) in [
            (9_050, SsLevel::V6_1, "9.050ms"),
            (9_050, SsLevel::V6_15, "9.050sec"),
            (200, SsLevel::V6_15, "200ms"),
        ] {
            let mut out = Vec::new();
            push_timer(&mut out, ms, level);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{ms}");
        }
        for (ms, expected) in [
            (0, ""),
            (5, "005ms"),
            (200, "200ms"),
            (1_000, "1sec"),
            (10_050, "10sec"),
            (60_000, "1min"),
            (61_500, "1min1sec"),
            (599_999, "9min59sec"),
            (601_000, "10min"),
            (7_200_000, "120min"),
        ] {
            let mut out = Vec::new();
            push_timer(&mut out, ms, SsLevel::V6_1);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{ms}");
        }
    }
}
