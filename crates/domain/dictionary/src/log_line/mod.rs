//! Log lines without what a log puts before the message, and without what terminals and web pages do to it.
//!
//! - [`plain`](plain()): colours, quotation marks, entities.
//! - `prefixes`: `dmesg` in all formats, `/dev/kmsg`, syslog old and new, the journal, containers, Android, mail.
//! - `json`: the journal, `dmesg --json`, Docker. `repeats`: lines about lines.

mod json;
mod plain;
mod prefixes;
mod repeats;

pub(crate) use json::{text_of_bytes, unescaped};
pub(crate) use plain::plain;
pub(crate) use repeats::{repeated, repeats, suppressed};

/// A log line without its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Message<'l> {
    /// Time as the log writes it
    pub(crate) time: Option<&'l str>,
    /// Text that the kernel or a program printed
    pub(crate) text: &'l str,
    /// Program that wrote it, if the log has it; may be the kernel
    pub(crate) program: Option<&'l str>,
    /// Begin of the kernel's text, which this log shows apart: Android's tag
    pub(crate) tag: Option<&'l str>,
    /// Whether it is the content of a JSON string
    pub(crate) is_escaped: bool,
    /// Whether it is the content of a JSON array of bytes
    pub(crate) is_bytes: bool,
    /// Whether the line has nothing but the time of a message on one of the next lines
    pub(crate) has_only_time: bool,
    /// Whether it was quoted: `> ` of a mail
    pub(crate) is_quoted: bool,
    /// Whether the time is one that the kernel or `dmesg` writes: neither a host nor a tag follows
    is_kernel_time: bool,
}

impl Message<'_> {
    /// Whether the kernel wrote it, as far as the log shows.
    pub(crate) fn is_of_kernel(&self) -> bool {
        // Names of the kernel at old and small daemons of syslog, too.
        matches!(
            self.program,
            None | Some("kernel" | "audit" | "klogd" | "kmsg" | "vmunix")
        )
    }

    /// Whether a program wrote it that passes on lines of others.
    fn is_of_logger(&self) -> bool {
        matches!(self.program, Some("dmesg" | "logger" | "syslog"))
    }
}

/// Removes the prefix, part by part.
pub(crate) fn message_of(line: &str) -> Message<'_> {
    let mut message = Message {
        text: line.trim_matches(['\0', '\r', '\n', ' ', '\t']),
        ..Message::default()
    };
    if message.text.starts_with(['{', '"', '}', ']']) && json::take(&mut message) {
        return message;
    }
    prefixes::take(&mut message);
    message
}

impl<'l> Message<'l> {
    /// Continues after a removed part; `rest` is what follows.
    fn continue_with(&mut self, rest: &'l str) {
        self.text = rest.trim_start();
    }

    fn take_time(&mut self, time: &'l str) {
        // Prefer a date to the kernel's time since boot.
        self.time.get_or_insert(time);
    }
}

/// Whether the text is a mark of the journal itself: `-- Boot 2f1c... --`, `-- No entries --`.
pub(crate) fn is_mark(text: &str) -> bool {
    text.starts_with("-- ") && text.len() > 5 && text.ends_with(" --")
}

/// Whether this is a field of a record that is not its message: ` SUBSYSTEM=net` of `/dev/kmsg`, `    _TRANSPORT=kernel` of the journal.
pub(crate) fn is_field(line: &str) -> bool {
    let Some(rest) = line.strip_prefix(' ') else {
        return false;
    };
    let key = rest.trim_start().split('=').next().unwrap_or("");
    key.len() < rest.trim_start().len()
        && key.len() > 2
        && key != "MESSAGE"
        && key
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && key.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, time: Option<&str>) {
        let message = message_of(line);
        assert_eq!(
            (message.text, message.time),
            ("TCP: out of memory", time),
            "{line}"
        );
    }

    #[test]
    fn prefixes_of_all_formats_are_removed() {
        check("TCP: out of memory", None);
        check("[12345.678901] TCP: out of memory", Some("12345.678901"));
        check("[    5.678901] TCP: out of memory", Some("5.678901"));
        check("<4>[12345.678901] TCP: out of memory", Some("12345.678901"));
        check("[12345.678901] [ T1234] TCP: out of memory", Some("12345.678901"));
        check("[12345.678901][    C0] TCP: out of memory", Some("12345.678901"));
        check(
            "[Fri Nov 20 12:00:00 2026] TCP: out of memory",
            Some("Fri Nov 20 12:00:00 2026"),
        );
        check("[Nov20 12:00] TCP: out of memory", Some("Nov20 12:00"));
        check("[  +0.000012] TCP: out of memory", Some("+0.000012"));
        check("[  +0,000012] TCP: out of memory", Some("+0,000012"));
        check("   64.084614] TCP: out of memory", Some("64.084614"));
        check(
            "[87.840392].(0)[7:kworker/u4:0]TCP: out of memory",
            Some("87.840392"),
        );
        check("07:37:02 kernel: TCP: out of memory", Some("07:37:02"));
        check(
            "07:37:02.123 web-1 kernel: TCP: out of memory",
            Some("07:37:02.123"),
        );
        for time in [
            "giu 13 15:33:41",
            "нояб. 27 15:33:41",
            "Mär  3 15:33:41",
            "27 août 15:33:41",
            "11月 11 15:33:41",
            "13. Dez 15:33:41.123456",
        ] {
            check(&format!("{time} web-1 kernel: TCP: out of memory"), Some(time));
            check(
                &format!("{time} kernel: [   12.345678] TCP: out of memory"),
                Some(time),
            );
        }
        check(
            "Jul 29 15:01:01 orange kernel: 2134.617213] TCP: out of memory",
            Some("Jul 29 15:01:01"),
        );
        check(
            "[12345.678901 <    0.000012>] TCP: out of memory",
            Some("12345.678901 <    0.000012>"),
        );
        check(
            "kern  :warn  : [12345.678901] TCP: out of memory",
            Some("12345.678901"),
        );
        check(
            "kern  :warn  : [Fri Nov 20 12:00:00 2026] TCP: out of memory",
            Some("Fri Nov 20 12:00:00 2026"),
        );
        check(
            "2026-11-20T12:00:00,123456+00:00 TCP: out of memory",
            Some("2026-11-20T12:00:00,123456+00:00"),
        );
        check(
            "Nov 20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("Nov 20 12:00:00"),
        );
        check(
            "Nov  3 12:00:00 web-1 kernel: [ 12.345678] TCP: out of memory",
            Some("Nov  3 12:00:00"),
        );
        check(
            "2026-11-20T12:00:00.123456+00:00 web-1 kernel: [12.3] TCP: out of memory",
            Some("2026-11-20T12:00:00.123456+00:00"),
        );
        check(
            "<4>1 2026-11-20T12:00:00Z web-1 kernel - - - TCP: out of memory",
            Some("2026-11-20T12:00:00Z"),
        );
        check(
            "<4>1 2026-11-20T12:00:00Z web-1 kernel - - [a@1 b=\"c\"] TCP: out of memory",
            Some("2026-11-20T12:00:00Z"),
        );
        check(
            "<4>Nov 20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("Nov 20 12:00:00"),
        );
        check(
            "2026-11-20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("2026-11-20 12:00:00"),
        );
        check(
            "Fri 2026-11-20 12:00:00 UTC web-1 kernel: TCP: out of memory",
            Some("2026-11-20 12:00:00"),
        );
        check("4,1234,5678901,-;TCP: out of memory", Some("5678901"));
        check("4,1234,5678901,-,caller=T1;TCP: out of memory", Some("5678901"));
        check(
            "[12345.678901] web-1 kernel: TCP: out of memory",
            Some("12345.678901"),
        );
        check("kernel:[12345.678901] TCP: out of memory", Some("12345.678901"));
        check("kernel:TCP: out of memory", None);
        check(
            "Nov 20 12:00:00 web-1 kernel:[12345.678901] TCP: out of memory",
            Some("Nov 20 12:00:00"),
        );
        check(
            "Fri Nov 20 12:00:00 2026 kern.warn kernel: [12.3] TCP: out of memory",
            Some("Fri Nov 20 12:00:00 2026"),
        );
        check(
            "10.5.0.2: kern: warning: [2026-11-20T12:00:00.123456789Z]: TCP: out of memory",
            Some("2026-11-20T12:00:00.123456789Z"),
        );
        check(
            "2026-11-20T12:00:00.123456789Z stdout F [12.345678] TCP: out of memory",
            Some("2026-11-20T12:00:00.123456789Z"),
        );
        check(
            "[pod/npd-x/npd] I1120 12:00:00.123456       1 log_monitor.go:111] TCP: out of memory",
            Some("12:00:00.123456"),
        );
        check("web-1  | [12.345678] TCP: out of memory", Some("12.345678"));
        check(
            "11-20 12:00:00.123  1234  1234 W kernel  : TCP: out of memory",
            Some("11-20 12:00:00.123"),
        );
        check("W/kernel  (    0): TCP: out of memory", None);
        check(
            "<6>[   12.345678]  [3:  kworker/3:1: 1234] TCP: out of memory",
            Some("12.345678"),
        );
        check("> > [12345.678901] TCP: out of memory", Some("12345.678901"));
        check(
            "web-1 login: [12345.678901] TCP: out of memory",
            Some("12345.678901"),
        );
        check(
            "[2026-11-20 12:00:00.123] [   12.345678] TCP: out of memory",
            Some("2026-11-20 12:00:00.123"),
        );
        check(
            "/var/log/kern.log:12:Nov 20 12:00:00 web-1 kernel: TCP: out of memory",
            Some("Nov 20 12:00:00"),
        );
        check("6.18.0,4,1234,5678901,-;TCP: out of memory", Some("5678901"));
        check(
            "1700000000.123456 web-1 kernel: TCP: out of memory",
            Some("1700000000.123456"),
        );
        check("\"[12345.678901] TCP: out of memory\",", Some("12345.678901"));
        check(
            "2026/6/8 00:39\tkernel\tTCP: out of memory",
            Some("2026/6/8 00:39"),
        );
        check("\"TCP: out of memory\"", None);
        check("TCP: out of memory**", None);
        check(
            "[250105.951670](250066.492253]) TCP: out of memory",
            Some("250105.951670"),
        );
        check("  260.716787! TCP: out of memory", Some("260.716787"));
        check("<b>  260.716787! TCP: out of memory</b>", Some("260.716787"));
        check("<code>TCP: out of memory</code><br>", None);
        check("MESSAGE=TCP: out of memory", None);
        check("kernel: TCP: out of memory", None);
        check("  TCP: out of memory\r\n", None);
        check(
            r#"{"PRIORITY":"4","MESSAGE":"TCP: out of memory","__REALTIME_TIMESTAMP":"17"}"#,
            Some("17"),
        );
    }

    #[test]
    fn other_text_stays() {
        for line in [
            "eth0: link up",
            "Neighbour table overflow",
            "[drm] ready",
            "IPv6: eth0: IPv6 duplicate address fe80::1 detected!",
            "1 packet lost",
            "\"echo 0\" disables \"it\"",
            "Nov is a month",
            "",
        ] {
            assert_eq!(message_of(line).text, line);
        }
    }

    #[test]
    fn program_messages_match_no_kernel_entry() {
        let line = "Nov 20 12:00:00 web-1 app[9]: eth0: link down";
        assert_eq!(message_of(line).program, Some("app"));
        let line = "Nov 20 12:00:00 web-1 kernel: eth0: link down";
        assert_eq!(message_of(line).program, Some("kernel"));
        let line = "<4>1 2026-11-20T12:00:00Z web-1 app 9 - - eth0: link down";
        assert_eq!(message_of(line).program, Some("app"));
    }
}
