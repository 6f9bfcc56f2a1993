//! Inspection of an existing device: settings, readers, traffic and drops.

use super::wait::wait;
use sockeye_model::{Comm, Device, Pid};
use sockeye_source::vitals;
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::ethtool;
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use sockeye_wire::rtnetlink::{Link, RTM_NEWLINK, TunInfo, change};
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Two samples of a device.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// First sample.
    pub before: Device,
    /// Second sample.
    pub after: Device,
    /// Time between the samples.
    pub elapsed: Duration,
    /// Driver settings of a TUN or TAP device; `None` for others and before Linux 4.16.
    pub tun: Option<TunInfo>,
    /// Active features by ethtool's names; `None` if not available (Linux 5.6).
    pub features: Option<Vec<String>>,
    /// Processes that have it open, as far as visible.
    pub readers: Vec<(Pid, Comm)>,
    /// Whether it was interrupted.
    pub is_cut_short: bool,
}

/// Samples a device of the calling thread's network namespace twice, `duration` apart. `None` if the device does not
/// exist, or disappears.
#[must_use]
pub fn inspect(name: &str, duration: Duration, interrupt: Option<BorrowedFd<'_>>) -> Option<Inspection> {
    let started = Instant::now();
    let before = find(name)?;
    let is_cut_short = wait(started + duration, interrupt);
    let elapsed = started.elapsed();
    let after = find(name).filter(|after| after.index == before.index)?;
    Some(Inspection {
        tun: tun_info(name),
        features: features(before.index.0),
        readers: readers(name),
        before,
        after,
        elapsed,
        is_cut_short,
    })
}

fn find(name: &str) -> Option<Device> {
    let devices = vitals::namespace().devices;
    devices
        .into_iter()
        .find(|device| device.name.as_bytes() == name.as_bytes())
}

fn tun_info(name: &str) -> Option<TunInfo> {
    let mut found = None;
    let socket = NetlinkSocket::open_route().ok()?;
    ask(&socket, &change::find(name, SEQUENCE)?, &mut |message| {
        if message.kind == RTM_NEWLINK {
            found = Link::parse(message.payload).ok().and_then(|link| link.info.tun);
        }
    })?;
    found
}

fn features(index: u32) -> Option<Vec<String>> {
    let socket = NetlinkSocket::open_generic().ok()?;
    let mut family = None;
    ask(&socket, &ethtool::family_request(SEQUENCE), &mut |message| {
        family = ethtool::family(message.payload).ok().flatten();
    })?;
    let family = family?;
    let mut names = None;
    ask(
        &socket,
        &ethtool::features_request(family, index, SEQUENCE),
        &mut |message| {
            names = ethtool::active_features(message.payload).ok().map(|names| {
                let names = names.into_iter();
                names
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    .collect()
            });
        },
    )?;
    names
}

/// Sends a request with one answer; `None` if there is none.
fn ask(socket: &NetlinkSocket, request: &[u8], take: &mut dyn FnMut(&Message<'_>)) -> Option<()> {
    socket.send(request).ok()?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let received = socket
        .receive(&mut buffer)
        .ok()
        .filter(|received| !received.truncated)?;
    let mut messages = Messages::new(&buffer[..received.len]).flatten();
    let answer = messages.find(|message| !matches!(message.kind, NLMSG_DONE | NLMSG_ERROR))?;
    take(&answer);
    Some(())
}

/// Returns the processes that have the device open. The `fdinfo` of `/dev/net/tun` names the interface, but not its
/// namespace: only processes in the current one count.
fn readers(name: &str) -> Vec<(Pid, Comm)> {
    let netns = |folder: &str| {
        fs::metadata(format!("{folder}/ns/net"))
            .ok()
            .map(|file| (file.dev(), file.ino()))
    };
    let own = netns("/proc/thread-self");
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let holds = |number: &u32| {
        let folder = format!("/proc/{number}");
        netns(&folder) == own && has_open(&folder, name)
    };
    let mut found: Vec<(Pid, Comm)> = numbers
        .filter(holds)
        .filter_map(|number| {
            let comm = fs::read(format!("/proc/{number}/comm")).ok()?;
            let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
            Some((Pid(number), Comm::new(comm)))
        })
        .collect();
    found.sort_by_key(|(pid, _)| pid.0);
    found
}

fn has_open(folder: &str, name: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("{folder}/fd")) else {
        return false;
    };
    let mut numbers = files.filter_map(|entry| {
        let entry = entry.ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        (target.as_os_str() == "/dev/net/tun").then(|| entry.file_name())
    });
    numbers.any(|number| {
        let info =
            fs::read_to_string(format!("{folder}/fdinfo/{}", number.to_string_lossy())).unwrap_or_default();
        info.lines()
            .filter_map(|line| line.strip_prefix("iff:"))
            .any(|of| of.trim() == name)
    })
}

const SEQUENCE: u32 = 1;
const BUFFER_BYTES: usize = 64 * 1024;
