//! What waits in the queues of devices: classes of qdiscs, and the bytes in their rings.

use crate::dump::run_here;
use sockeye_model::{DeviceName, DeviceQueues, InterfaceIndex, Qdisc};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::rtnetlink::{self, RTM_NEWTCLASS};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Reads the queues of devices of the calling thread's network namespace. `has_rings`: whether `/sys` is of this namespace, so that it
/// has the rings of these devices. What cannot be read is missing.
#[must_use]
pub fn device_queues(devices: &[(InterfaceIndex, DeviceName)], has_rings: bool) -> Vec<DeviceQueues> {
    let Ok(route) = NetlinkSocket::open_route() else {
        return Vec::new();
    };
    let mut buffer = Vec::new();
    let queues = devices.iter().map(|(index, name)| {
        let mut classes = Vec::new();
        let request = rtnetlink::Qdisc::dump_classes(index.0, SEQUENCE);
        run_here(&route, &request, SEQUENCE, &mut buffer, &mut |message| {
            if message.kind == RTM_NEWTCLASS
                && let Ok(class) = rtnetlink::Qdisc::parse(message.payload)
            {
                classes.extend(Qdisc::from_wire(&class));
            }
        });
        DeviceQueues {
            index: *index,
            ring_bytes: has_rings.then(|| ring_bytes(name)).flatten(),
            classes,
        }
    });
    queues.collect()
}

/// Returns the bytes that the driver of a device has and has not sent, of all its queues; `None` if its driver does not count them
/// (BQL, Linux 3.3).
fn ring_bytes(device: &DeviceName) -> Option<u64> {
    let device = OsStr::from_bytes(device.as_bytes());
    let folder = Path::new("/sys/class/net").join(device).join("queues");
    let queues = fs::read_dir(folder).ok()?.flatten();
    let of_queue = |folder: &Path| {
        let text = fs::read_to_string(folder.join("byte_queue_limits/inflight")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    queues.fold(None, |sum, queue| match (sum, of_queue(&queue.path())) {
        (Some(sum), Some(bytes)) => Some(sum + bytes),
        (sum, bytes) => sum.or(bytes),
    })
}

const SEQUENCE: u32 = 1;
