//! Inspection of an existing device: settings, readers, traffic and drops.

use super::wait::wait;
use sockeye_model::{Comm, Device, Pid};
use sockeye_source::vitals;
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::ethtool;
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use sockeye_wire::rtnetlink::{Link, RTM_NEWLINK, TunInfo, change};
use std::os::fd::BorrowedFd;
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
        readers: vitals::tunnel_readers(name),
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

const SEQUENCE: u32 = 1;
const BUFFER_BYTES: usize = 64 * 1024;
