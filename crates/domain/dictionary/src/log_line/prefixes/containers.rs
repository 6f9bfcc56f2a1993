//! Prefixes of Kubernetes, Docker, Talos, Open vSwitch, and NFS-Ganesha.

use super::syslog::{FACILITIES, facility};
use super::times::{is_clock, is_iso};
use super::{all_digits, split_at_colon};
use crate::log_line::Message;

/// `2026-11-20T12:00:00.123Z|00206|dpif(handler14)|WARN|`
pub(super) fn open_vswitch(message: &mut Message<'_>) -> bool {
    let Some((time, behind)) = message.text.split_once('|') else {
        return false;
    };
    let Some((module, rest)) = module_of_open_vswitch(behind).filter(|_| is_iso(time)) else {
        return false;
    };
    message.take_time(time);
    message.program = Some(module);
    message.continue_with(rest);
    true
}

/// `ovs|00206|dpif(handler14)|WARN|` of Open vSwitch's lines in syslog
pub(super) fn open_vswitch_in_syslog(message: &mut Message<'_>) -> bool {
    let rest = message.text.strip_prefix("ovs|").and_then(module_of_open_vswitch);
    if let Some((_, rest)) = rest {
        message.continue_with(rest);
    }
    rest.is_some()
}

/// The module, and what is behind number, module, thread and level.
fn module_of_open_vswitch(text: &str) -> Option<(&str, &str)> {
    let (number, text) = text.split_once('|')?;
    let (module, text) = text.split_once('|')?;
    let (level, text) = text.split_once('|')?;
    let is_of_it = all_digits(number) && !module.contains(' ') && OPEN_VSWITCH_LEVELS.contains(&level);
    is_of_it.then(|| (module.split('(').next().unwrap_or(module), text))
}

/// `stdout F ` of container runtimes
pub(super) fn stream(message: &mut Message<'_>) -> bool {
    let rest = ["stdout ", "stderr "]
        .iter()
        .find_map(|stream| message.text.strip_prefix(stream))
        .and_then(|rest| rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P ")));
    let Some(rest) = rest else {
        return false;
    };
    message.continue_with(rest);
    true
}

/// `[pod/NAME/CONTAINER] ` of `kubectl logs --prefix`
pub(super) fn pod(message: &mut Message<'_>) -> bool {
    let rest = message
        .text
        .strip_prefix("[pod/")
        .and_then(|rest| rest.split_once("] "));
    let Some((_, rest)) = rest else {
        return false;
    };
    message.continue_with(rest);
    true
}

/// `I1120 12:00:00.123456       1 log_monitor.go:111] `
pub(super) fn klog(message: &mut Message<'_>) -> bool {
    let Some((day, behind_day)) = message.text.split_at_checked(5) else {
        return false;
    };
    if !day.starts_with(['I', 'W', 'E', 'F']) || !all_digits(&day[1..]) || !behind_day.starts_with(' ') {
        return false;
    }
    let Some((head, rest)) = behind_day.split_once("] ") else {
        return false;
    };
    let mut words = head.split_whitespace();
    let Some(clock) = words.next() else {
        return false;
    };
    let is_klog = is_clock(clock) && words.next_back().is_some_and(|place| place.contains(".go:"));
    if is_klog {
        message.take_time(clock);
        message.is_kernel_time = true;
        message.continue_with(rest);
    }
    is_klog
}

/// `time="2026-11-20T12:00:00Z" level=error msg="text"` of Docker, containerd and other programs in Go. Other fields behind the text stay.
pub(super) fn logfmt(message: &mut Message<'_>) -> bool {
    let text = message.text;
    let Some(behind_time) = text.strip_prefix("time=") else {
        return false;
    };
    let (time, rest) = match behind_time.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').unwrap_or(("", "")),
        None => behind_time.split_once(' ').unwrap_or(("", "")),
    };
    let Some((level, rest)) = rest.trim_start().split_once(' ') else {
        return false;
    };
    let Some(said) = rest.strip_prefix("msg=").filter(|_| level.starts_with("level=")) else {
        return false;
    };
    message.take_time(time);
    // The quotation mark at the end is that of the text, or of the last field.
    let said = said.strip_prefix('"').unwrap_or(said);
    message.continue_with(said.strip_suffix('"').unwrap_or(said));
    message.program.get_or_insert("logfmt");
    true
}

/// `19/06/2023 15:46:16 : epoch 03c5d313 : host : ganesha.nfsd-1[dbus_heartbeat] `
pub(super) fn ganesha(message: &mut Message<'_>) -> bool {
    let text = message.text;
    let Some((time, rest)) = text.split_once(" : epoch ") else {
        return false;
    };
    let Some((thread, said)) = rest
        .split_once(" : ganesha.nfsd-")
        .and_then(|(_, rest)| rest.split_once("] "))
    else {
        return false;
    };
    if !time.split(' ').next_back().is_some_and(is_clock) || !thread.contains('[') {
        return false;
    }
    message.take_time(time);
    message.program = Some("ganesha.nfsd");
    message.continue_with(said);
    true
}

/// `web-1  | ` of `docker compose logs`
pub(super) fn container(message: &mut Message<'_>) -> bool {
    // A search for one byte is much faster than one for three.
    if message.time.is_some() || !message.text.contains('|') {
        return false;
    }
    let Some((name, rest)) = message.text.split_once(" | ") else {
        return false;
    };
    let name = name.trim_end();
    let is_name = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_name {
        message.continue_with(rest);
    }
    is_name
}

/// `10.5.0.2: kern: ` of `talosctl dmesg`
pub(super) fn node(message: &mut Message<'_>) -> bool {
    if message.time.is_some() {
        return false;
    }
    let Some((node, rest)) = split_at_colon(message.text) else {
        return false;
    };
    let rest = rest.trim_start();
    let is_facility = FACILITIES.iter().any(|facility| {
        rest.strip_prefix(facility)
            .is_some_and(|rest| rest.starts_with(':'))
    });
    if is_facility && !node.contains(' ') {
        message.continue_with(rest);
        return facility(message);
    }
    false
}

const OPEN_VSWITCH_LEVELS: [&str; 5] = ["EMER", "ERR", "WARN", "INFO", "DBG"];

#[cfg(test)]
mod tests {
    use crate::log_line::message_of;

    #[track_caller]
    fn check(line: &str, program: Option<&str>, text: &str) {
        let message = message_of(line);
        assert_eq!((message.program, message.text), (program, text), "{line}");
    }

    #[test]
    fn text_of_logfmt_is_the_message() {
        let text = "conn.Receive: netlink receive: operation not supported";
        for line in [
            format!("time=\"25-11-2023 22:16:19\" level=fatal msg=\"{text}\""),
            format!("time=2023-11-25T22:16:19.123Z level=fatal msg=\"{text}\""),
        ] {
            check(&line, Some("logfmt"), text);
            check(
                &format!("Nov 25 22:16:19 web-1 dockerd[812]: {line}"),
                Some("dockerd"),
                text,
            );
        }
        check("time=5ms rtt", None, "time=5ms rtt");
    }

    #[test]
    fn klog_behind_a_program_is_removed() {
        check(
            "Feb 12 10:02:06 node1 kubelet[812]: W0212 10:02:06.262549  148526 cni.go:171] Unable to update cni config",
            Some("kubelet"),
            "Unable to update cni config",
        );
    }

    #[test]
    fn prefix_of_ganesha_is_removed() {
        check(
            "19/06/2023 15:46:16 : epoch 03c5d313 : b75d9f18a98d : ganesha.nfsd-1[main] nsm_connect :NLM :CRIT :connect failed",
            Some("ganesha.nfsd"),
            "nsm_connect :NLM :CRIT :connect failed",
        );
    }
}
