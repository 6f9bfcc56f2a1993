//! Bytes that processes send and receive over UDP.

use crate::watch::{Objects, Tracepoint, Watch, WatchOptions};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable, own_pid_namespace};
use sockeye_sys::bpf::Table;
use sockeye_wire::udp_bytes::{Key, Totals, UDP_BYTES};
use std::collections::BTreeMap;

/// The attached programs that count bytes of UDP. What was sent before they were attached is not counted.
#[derive(Debug)]
pub struct UdpBytesWatch {
    /// Keeps the programs attached.
    _watch: Watch,
    totals: Table,
}

impl UdpBytesWatch {
    /// Loads the programs and attaches them.
    ///
    /// # Errors
    /// When they do not run here: before Linux 6.3 the kernel has no such tracepoints.
    pub fn begin(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let options = WatchOptions {
            tracepoints: &TRACEPOINTS,
            ring_bytes: 0,
            entries: &[],
            in_place_entries: &[],
            constants: &[("pid_namespace", &own_pid_namespace().to_ne_bytes())],
        };
        let mut watch = Watch::load(engine, &OBJECTS, &options)?;
        let totals = watch
            .table(UDP_BYTES)
            .map_err(|error| Unavailable::Load(error, Vec::new()))?;
        watch.attach()?;
        Ok(Self {
            _watch: watch,
            totals,
        })
    }

    /// Returns what each process has sent and received until now. One that was not active for longest may be missing.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn totals(&self) -> Result<BTreeMap<Key, Totals>, Errno> {
        let mut totals = BTreeMap::new();
        self.totals
            .each(|key, value| totals.extend(Key::read(key).zip(Totals::read(value))))?;
        Ok(totals)
    }
}

const TRACEPOINTS: [Tracepoint; 2] = [
    Tracepoint {
        program: "socket_sends",
        event: "sock_send_length",
        required: true,
    },
    Tracepoint {
        program: "socket_receives",
        event: "sock_recv_length",
        required: true,
    },
];

const OBJECTS: Objects = Objects {
    in_place: include_bytes!("../../../../bpf/udp_bytes.bpf.o"),
    by_copy: include_bytes!("../../../../bpf/udp_bytes_read.bpf.o"),
};
