//! `-i`: interfaces, their addresses and counters.

use super::buffered_stdout::{BufferedStdout, shown_name};
use super::options::Flags;
use crate::errno::errno_text;
use crate::output::netstat::{
    INTERFACES_HEADER, INTERFACES_TITLE, Interface, Ipv4, Ipv6, Resources, Traffic, push_long, push_short,
};
use crate::proc_note;
use anyhow::anyhow;
use sockeye_console::notes;
use sockeye_source::{Address, Devices, Map, net_file};
use sockeye_wire::proc_net::{DeviceLine, Inet6Line};
use std::cmp::Ordering;
use std::net::Ipv4Addr;
use std::process::ExitCode;

/// Prints the interfaces: those that are up, or with `-a` all.
pub(super) fn run(flags: &Flags, out: &mut BufferedStdout) -> anyhow::Result<ExitCode> {
    out.text.extend_from_slice(INTERFACES_TITLE);
    loop {
        let (interfaces, is_complete) = read_interfaces()?;
        let is_short = flags.extended < 2;
        if is_short {
            out.text.extend_from_slice(INTERFACES_HEADER);
        }
        let shown = interfaces
            .iter()
            .filter(|interface| flags.all || interface.flags & IFF_UP != 0);
        for interface in shown {
            let interface = Interface {
                name: shown_name(&interface.name).into_owned(),
                ..interface.clone()
            };
            if is_short {
                push_short(&mut out.text, &interface);
            } else {
                push_long(&mut out.text, &interface);
            }
        }
        out.flush()?;
        if !is_complete {
            return Ok(ExitCode::FAILURE);
        }
        if !flags.continuous || !out.flush_and_pause()? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Reads all interfaces and the labels of their addresses, sorted by name. The flag is false if one disappeared
/// meanwhile; those after it are left out then.
fn read_interfaces() -> anyhow::Result<(Vec<Interface>, bool)> {
    let counters = net_file("dev").unwrap_or_else(|error| {
        let text = errno_text(&error);
        notes::say(&format!(
            "Warning: cannot open /proc/net/dev ({text}). Limited output.\n"
        ));
        proc_note::say_if_missing("netstat");
        Vec::new()
    });
    let counters: Vec<_> = lines(&counters).filter_map(DeviceLine::parse).collect();
    let addresses6 = net_file("if_inet6").unwrap_or_default();
    let devices =
        Devices::read().map_err(|reason| anyhow!("interfaces could not be read by rtnetlink: {reason}"))?;
    let mut names: Vec<&[u8]> = counters.iter().map(|line| line.name).collect();
    names.extend(devices.addresses.iter().map(|address| &address.label[..]));
    names.sort_by(|one, other| compare_names(one, other));
    names.dedup();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        // A label is an interface's name, a colon and a number.
        let base = name.split(|&byte| byte == b':').next().unwrap_or_default();
        let Some(link) = devices.links.iter().find(|link| link.name == base) else {
            let name = String::from_utf8_lossy(name);
            notes::say(&format!(
                "{name}: error fetching interface information: Device not found\n\
                 missing interface information: No such device\n"
            ));
            return Ok((found, false));
        };
        found.push(Interface {
            name: name.to_vec(),
            kind: link.kind,
            flags: link.flags as u16, // `ifr_flags` is a short
            mtu: link.mtu.unwrap_or(0),
            queue_len: link.queue_len,
            address: link.address.clone(),
            ipv4: devices
                .addresses
                .iter()
                .find(|address| address.label == name)
                .map(ipv4),
            ipv6: lines(&addresses6)
                .filter_map(Inet6Line::parse)
                .filter(|line| line.interface == name)
                .map(|line| Ipv6 {
                    address: line.address.into(),
                    prefix_len: line.prefix_len,
                    scope: line.scope,
                })
                .collect(),
            traffic: counters
                .iter()
                .find(|line| line.name == name)
                .map(|line| Traffic(line.counters)),
            resources: resources(link.map),
        });
    }
    Ok((found, true))
}

/// Returns the resources with the widths of `struct ifmap`.
fn resources(map: Map) -> Resources {
    Resources {
        irq: map.irq as u8,
        base: map.base_addr as u16,
        memory_start: map.mem_start,
        memory_end: map.mem_end,
        dma: map.dma,
    }
}

fn ipv4(address: &Address) -> Ipv4 {
    let host_bits = 32_u32.saturating_sub(address.prefix_len.into());
    let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
    Ipv4 {
        address: address.local,
        netmask: Ipv4Addr::from_bits(mask),
        broadcast: address.broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED),
        destination: address.peer,
    }
}

/// Compares names by their stem, their number and the number of their label: `eth2`, `eth2:1`, `eth10`.
fn compare_names(one: &[u8], other: &[u8]) -> Ordering {
    let key = |name| {
        let (base, label): (&[u8], Option<&[u8]>) = split_label(name);
        let digits = trailing_digits(base);
        let (stem, digits) = base.split_at(base.len() - digits);
        (stem, value(digits), base, label.map(value), label)
    };
    key(one).cmp(&key(other))
}

/// Splits off a label, which is a number after a colon.
fn split_label(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    let digits = trailing_digits(name);
    match name[..name.len() - digits].strip_suffix(b":") {
        Some(base) if digits > 0 => (base, Some(&name[name.len() - digits..])),
        _ => (name, None),
    }
}

fn trailing_digits(name: &[u8]) -> usize {
    name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count()
}

fn value(digits: &[u8]) -> u64 {
    let grow = |value: u64, digit: &u8| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    digits.iter().fold(0, grow)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

const IFF_UP: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let mut names = [
            "wlan0", "eth10", "eth2:10", "lo", "eth2:2", "eth2", "eth", "eth02", "a1b",
        ];
        names.sort_by(|one, other| compare_names(one.as_bytes(), other.as_bytes()));
        assert_eq!(
            names,
            [
                "a1b", "eth", "eth02", "eth2", "eth2:2", "eth2:10", "eth10", "lo", "wlan0"
            ]
        );
    }

    #[test]
    fn prefix_length_becomes_netmask() {
        let check = |prefix_len, expected: [u8; 4]| {
            let found = ipv4(&Address {
                label: Vec::new(),
                local: Ipv4Addr::LOCALHOST,
                peer: Ipv4Addr::LOCALHOST,
                broadcast: None,
                prefix_len,
            });
            assert_eq!(found.netmask.octets(), expected);
        };
        check(0, [0; 4]);
        check(20, [255, 255, 240, 0]);
        check(32, [255; 4]);
    }
}
