//! Splits a large dump into two halves that run at once on two cores.
//!
//! A dump runs on one core and is most of the cost of a listing. Two dumps at once, each with a program that accepts one
//! half of the sockets, use both cores. Both walk the whole hash table, but filling in the messages costs more than
//! walking. The ports of a socket decide its half; they never change, so each socket is listed exactly once.
//! docs/BENCHMARKS.md has the measurements.

use crate::query::Query;
use sockeye_model::{State, StateSet};
use sockeye_sys::kernel_release::is_since;
use sockeye_wire::bytecode::{Assembler, Condition, End};
use std::fs::read_to_string;
use std::ops::RangeInclusive;

/// Returns the programs of the two halves, each followed by the query's program; `None` if one dump is better:
/// few sockets, or one core.
pub(crate) fn programs(query: &Query<'_>, program: &[u8]) -> Option<[Vec<u8>; 2]> {
    // Listeners have a separate, small table.
    if query
        .states
        .and(StateSet::EMPTY.with(State::Listen).complement())
        .is_empty()
    {
        return None;
    }
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return None;
    }
    // Before, a mutex serialized dumps ("inet_diag: remove three mutexes in diag dumps", E. Dumazet, January 2024), and halves
    // would only cost a second walk.
    if !is_since(6, 9) {
        return None;
    }
    let middle = query.inside(middle).ok()??;
    let mut upper = Assembler::default();
    let (no, yes) = (upper.label(), upper.label());
    upper.condition(&Condition::PortAtLeast(End::Source, middle), no);
    upper.jump(yes);
    upper.place(no);
    upper.condition(
        &Condition::PortAtLeast(End::Destination, middle),
        Assembler::REJECT,
    );
    upper.place(yes);
    let mut lower = Assembler::default();
    lower.condition(&Condition::PortAtMost(End::Source, middle - 1), Assembler::REJECT);
    lower.condition(
        &Condition::PortAtMost(End::Destination, middle - 1),
        Assembler::REJECT,
    );
    Some([upper.finish_with(program)?, lower.finish_with(program)?])
}

/// The port that splits the sockets of the calling thread's namespace in half; `None` if there are too few sockets.
///
/// One endpoint of a connection nearly always has an ephemeral port, and these are evenly distributed.
fn middle() -> Option<u16> {
    if tcp_sockets_in_use()? < WORTH_HALVING {
        return None;
    }
    let ports = ephemeral_ports()?;
    Some(ports.start().midpoint(*ports.end())).filter(|&middle| middle > 0)
}

/// Returns about how many TCP sockets the calling thread's network namespace has; `None` if unknown.
pub(crate) fn tcp_sockets_in_use() -> Option<u64> {
    sockets_in_use(["TCP: ", "TCP6: "])
}

/// Returns about how many UDP sockets the calling thread's network namespace has; `None` if unknown.
pub(crate) fn udp_sockets_in_use() -> Option<u64> {
    sockets_in_use(["UDP: ", "UDP6: "])
}

/// The sum of these lines of `sockstat` and `sockstat6`.
fn sockets_in_use([v4, v6]: [&str; 2]) -> Option<u64> {
    // IPv6 sockets, including those with IPv4 peers, are counted in a separate file, which may be missing.
    let v4 = in_use(v4, &read_to_string("/proc/thread-self/net/sockstat").ok()?)?;
    let v6 = read_to_string("/proc/thread-self/net/sockstat6")
        .ok()
        .and_then(|text| in_use(v6, &text));
    Some(v4 + v6.unwrap_or(0))
}

/// Returns the ephemeral ports of the calling thread's network namespace (`net.ipv4.ip_local_port_range`); `None` if
/// they cannot be read.
#[must_use]
pub fn ephemeral_ports() -> Option<RangeInclusive<u16>> {
    let range = read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = range.split_ascii_whitespace().map(|port| port.parse().ok());
    Some(ports.next()??..=ports.next()??)
}

/// Sockets in use and in TIME_WAIT, from the text of `/proc/net/sockstat` (`TCP: inuse 5 ... tw 2`) or
/// `sockstat6` (`TCP6: inuse 5`).
fn in_use(line: &str, sockstat: &str) -> Option<u64> {
    let mut words = sockstat
        .lines()
        .find_map(|text| text.strip_prefix(line))?
        .split_ascii_whitespace();
    let mut sum = 0;
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if name == "inuse" || name == "tw" {
            sum += value.parse::<u64>().ok()?;
        }
    }
    Some(sum)
}

/// Fewer sockets are listed in less time than two walks over the hash table may take.
const WORTH_HALVING: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_wait_counts_as_in_use_and_malformed_text_is_none() {
        let text = "sockets: used 18\nTCP: inuse 5 orphan 1 tw 588 alloc 2 mem 60\nUDP: inuse 0 mem 256\n";
        assert_eq!(in_use("TCP: ", text), Some(593));
        assert_eq!(in_use("UDP: ", text), Some(0));
        assert_eq!(in_use("TCP6: ", "TCP6: inuse 7\nUDP6: inuse 1\n"), Some(7));
        assert_eq!(in_use("TCP: ", "UDP: inuse 7"), None);
        assert_eq!(in_use("TCP: ", "TCP: inuse x"), None);
    }
}
