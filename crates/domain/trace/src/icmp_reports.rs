//! ICMP errors about a connection.

use crate::direction::Direction;
use sockeye_wire::packet::{IcmpError, IcmpKind};
use std::net::IpAddr;

/// ICMP errors of one kind by one host, about one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpReport {
    /// Direction of the quoted segments
    pub direction: Direction,
    /// Meaning
    pub kind: IcmpKind,
    /// Host that reported it
    pub reporter: IpAddr,
    /// Largest packet that fits, as reported last, in bytes; `None` if it is not about the size
    pub mtu: Option<u32>,
    /// Time of the first one since the first packet of the capture, in nanoseconds
    pub time_ns: u64,
    /// Number of these errors
    pub count: u64,
}

/// Name of an ICMP error in JSON.
#[must_use]
pub const fn icmp_name(kind: IcmpKind) -> &'static str {
    match kind {
        IcmpKind::NetUnreachable => "net_unreachable",
        IcmpKind::HostUnreachable => "host_unreachable",
        IcmpKind::PortUnreachable => "port_unreachable",
        IcmpKind::Prohibited => "prohibited",
        IcmpKind::TooBig => "too_big",
        IcmpKind::TimeExceeded => "time_exceeded",
        IcmpKind::Other => "other",
    }
}

/// Adds an error to a short list of reports; those that do not fit count for the last one.
pub(crate) fn add(reports: &mut Vec<IcmpReport>, direction: Direction, time_ns: u64, error: &IcmpError) {
    let is_same = |report: &&mut IcmpReport| {
        report.direction == direction && report.kind == error.kind && report.reporter == error.reporter
    };
    if let Some(report) = reports.iter_mut().find(is_same) {
        report.count += 1;
        report.mtu = error.mtu.or(report.mtu);
    } else if reports.len() < REPORTS_MAX {
        reports.push(IcmpReport {
            direction,
            kind: error.kind,
            reporter: error.reporter,
            mtu: error.mtu,
            time_ns,
            count: 1,
        });
    } else if let Some(last) = reports.last_mut() {
        last.count += 1;
    }
}

/// Kinds and reporters of one connection that are kept.
const REPORTS_MAX: usize = 8;
