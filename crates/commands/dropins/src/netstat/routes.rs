//! `-r`: routing tables of one family or several.

use super::buffered_stdout::{BufferedStdout, shown_name};
use super::names::HostNames;
use super::options::Flags;
use crate::errno::errno_text;
use crate::output::netstat::{RouteColumns, RouteLayout, RouteV4, RouteV6};
use crate::proc_note;
use sockeye_console::notes;
use sockeye_source::net_file;
use sockeye_wire::proc_net::{Route6Line, RouteLine};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

/// Prints the routing tables of the selected families.
pub(super) fn run(flags: &Flags, out: &mut BufferedStdout) -> anyhow::Result<ExitCode> {
    let routes = Routes {
        flags,
        names: HostNames::new(flags),
        layout: RouteLayout {
            // In the original no -e and one -e are swapped, and only the low two bits of the count are used.
            columns: match flags.extended & 3 {
                1 if flags.extended == 1 => RouteColumns::Window,
                2 if flags.extended == 2 => RouteColumns::Metric,
                0 => RouteColumns::Title,
                1 => RouteColumns::Metric,
                2 => RouteColumns::Window,
                _ => RouteColumns::All,
            },
            numeric: flags.numeric_hosts || flags.symbolic,
        },
    };
    loop {
        let status = routes.round(out);
        out.flush()?;
        if status != 0 || !flags.continuous {
            return Ok(ExitCode::from(status));
        }
        if !out.flush_and_pause()? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

struct Routes<'a> {
    flags: &'a Flags,
    names: HostNames,
    layout: RouteLayout,
}

impl Routes<'_> {
    /// Prints all tables once and returns the exit status.
    fn round(&self, out: &mut BufferedStdout) -> u8 {
        let out = &mut out.text;
        for name in self.flags.family_names() {
            let status = match *name {
                "inet" => self.inet(out),
                "inet6" => self.inet6(out),
                name => push_unsupported(name, out),
            };
            if status != 0 {
                return status;
            }
        }
        0
    }

    fn shows_table(&self) -> bool {
        self.flags.fib || !self.flags.cache
    }

    fn inet(&self, out: &mut Vec<u8>) -> u8 {
        if self.shows_table() {
            let text = match net_file("route") {
                Ok(text) => text,
                Err(error) => return unconfigured("route", "INET (IPv4)", &error, out),
            };
            self.layout.push_header_v4(out);
            let routes: Vec<_> = lines(&text).filter_map(RouteLine::parse).collect();
            if !self.layout.numeric {
                self.names.resolve_hosts(routes.iter().flat_map(hosts_v4));
            }
            for route in routes.iter().filter(|route| route.flags & RTF_UP != 0) {
                self.push_v4(out, route);
            }
        }
        if self.flags.cache {
            match net_file("rt_cache") {
                Ok(_) => self.layout.push_cache_v4(out),
                Err(error) => return unconfigured("rt_cache", "INET (IPv4)", &error, out),
            }
        }
        0
    }

    fn push_v4(&self, out: &mut Vec<u8>, route: &RouteLine<'_>) {
        let (destination, mask) = (Ipv4Addr::from(route.destination), Ipv4Addr::from(route.mask));
        let name = if self.layout.numeric {
            None
        } else if RouteV4::is_to_host(destination, mask, route.flags) {
            sockeye_model::Names::host(&self.names, IpAddr::V4(destination))
        } else {
            self.names.network(destination)
        };
        let route = RouteV4 {
            interface: &shown_name(route.interface),
            destination,
            name,
            gateway: route.gateway.into(),
            flags: route.flags,
            references: route.references.into(),
            uses: route.uses.into(),
            metric: route.metric.into(),
            mask,
            mtu: route.mtu.into(),
            window: route.window.into(),
            irtt: route.irtt.into(),
        };
        self.layout.push_v4(out, &route, &self.names);
    }

    fn inet6(&self, out: &mut Vec<u8>) -> u8 {
        let caches = [(self.shows_table(), false), (self.flags.cache, true)];
        for (_, cache) in caches.into_iter().filter(|(is_shown, _)| *is_shown) {
            let text = match net_file("ipv6_route") {
                Ok(text) => text,
                Err(error) => return unconfigured("ipv6_route", "INET6 (IPv6)", &error, out),
            };
            self.layout.push_header_v6(out, cache);
            let routes: Vec<_> = lines(&text)
                .filter_map(Route6Line::parse)
                .filter(|route| RouteV6::is_cached(route.flags) == cache)
                .collect();
            if !self.layout.numeric {
                let ends = routes
                    .iter()
                    .flat_map(|route| [route.destination, route.next_hop]);
                self.names.resolve_hosts(ends.map(IpAddr::from));
            }
            for route in routes {
                let route = RouteV6 {
                    destination: route.destination.into(),
                    prefix_len: route.prefix_len,
                    next_hop: route.next_hop.into(),
                    flags: route.flags,
                    metric: route.metric.cast_signed(),
                    references: route.references.cast_signed(),
                    uses: route.uses.cast_signed(),
                    interface: &shown_name(route.interface),
                };
                self.layout.push_v6(out, &route, &self.names);
            }
        }
        0
    }
}

/// Returns the addresses of a route that may belong to hosts: the gateway, and the destination of a host route.
fn hosts_v4(route: &RouteLine<'_>) -> Vec<IpAddr> {
    let is_to_host = RouteV4::is_to_host(route.destination.into(), route.mask.into(), route.flags);
    let destination = is_to_host.then_some(route.destination);
    let ends = destination.into_iter().chain([route.gateway]);
    ends.map(IpAddr::from).collect()
}

fn unconfigured(file: &str, family: &str, error: &std::io::Error, out: &mut Vec<u8>) -> u8 {
    notes::say(&format!("/proc/net/{file}: {}\n", errno_text(error)));
    proc_note::say_if_missing("netstat");
    out.extend_from_slice(format!("{family} not configured in this system.\n").as_bytes());
    1
}

/// Prints the original's messages for a family that the kernel lacks, as nearly all kernels do. Their routes are not
/// implemented.
fn push_unsupported(name: &str, out: &mut Vec<u8>) -> u8 {
    let (printed, noted, status) = match name {
        "ax25" => (
            "AX.25 not configured in this system.\n",
            "/proc/net/ax25_route: No such file or directory\n",
            1,
        ),
        "netrom" => (
            "NET/ROM not configured in this system.\n",
            "/proc/net/nr_nodes: No such file or directory\n/proc/net/nr_neigh: Invalid argument\n",
            1,
        ),
        "rose" => (
            "",
            "/proc/net/rose_nodes: No such file or directory\nROSE not configured in this system.\n",
            1,
        ),
        "ipx" => (
            "IPX routing not in file /proc/net/ipx/route or /proc/net/ipx_route found.\n",
            "No such file or directory\n",
            1,
        ),
        "ddp" => (
            "",
            "Error opening /proc/net/atalk_route: No such file or directory\n\
             DDP (AppleTalk) not configured on this system.\n",
            1,
        ),
        "x25" => ("X.25 not configured in this system.\n", "", 1),
        "bluetooth" => ("", "Address family `bluetooth' not supported.\n", 3),
        name => {
            notes::say(&format!("No routing for address family `{name}'.\n"));
            return 3;
        }
    };
    notes::say(noted);
    out.extend_from_slice(printed.as_bytes());
    status
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

const RTF_UP: u32 = 1;
