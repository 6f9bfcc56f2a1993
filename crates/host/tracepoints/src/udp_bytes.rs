//! Bytes that processes send and receive over UDP.

use crate::per_processor::sum_at;
use crate::watch::{Objects, Tracepoint, Watch, WatchOptions};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable, own_pid_namespace};
use sockeye_sys::bpf::Table;
use sockeye_wire::udp_bytes::{Key, Totals, UDP_BYTES, UDP_COUNTS};
use std::collections::BTreeMap;

/// The attached programs that count bytes of UDP. What was sent before they were attached is not counted.
#[derive(Debug)]
pub struct UdpBytesWatch {
    /// Keeps the programs attached.
    _watch: Watch,
    totals: Table,
    counts: Table,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UdpBytes {
    /// What each process has sent and received.
    pub totals: BTreeMap<Key, Totals>,
    /// Entries that have made room for others: what they had is forgotten, and if such a process goes on it begins at 0.
    pub evicted: u64,
    /// Calls whose bytes are not counted, for their process found no room.
    pub refused: u64,
}

impl UdpBytesWatch {
    /// Loads the programs and attaches them.
    ///
    /// # Errors
    /// When they do not run here: before Linux 6.3 the kernel has no such tracepoints.
    pub fn begin(engine: &BpfEngine) -> Result<Self, Unavailable> {
        Self::begin_with(engine, &[])
    }

    /// The same with other sizes of maps.
    fn begin_with(engine: &BpfEngine, entries: &[(&str, u32)]) -> Result<Self, Unavailable> {
        let options = WatchOptions {
            tracepoints: &TRACEPOINTS,
            ring_bytes: 0,
            entries,
            in_place_entries: &[],
            constants: &[("pid_namespace", &own_pid_namespace().to_ne_bytes())],
        };
        let mut watch = Watch::load(engine, &OBJECTS, &options)?;
        let mut table = |name| {
            watch
                .table(name)
                .map_err(|error| Unavailable::Load(error, Vec::new()))
        };
        let (totals, counts) = (table(UDP_BYTES)?, table(UDP_COUNTS)?);
        watch.attach()?;
        Ok(Self {
            _watch: watch,
            totals,
            counts,
        })
    }

    /// Returns what each process has sent and received until now. Those that were not active for longest may be missing, and are counted.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn totals(&self) -> Result<UdpBytes, Errno> {
        // First: what is added meanwhile is not taken for evicted.
        let (added, refused) = (sum_at(&self.counts, ADDED)?, sum_at(&self.counts, REFUSED)?);
        let mut totals = BTreeMap::new();
        self.totals
            .each(|key, value| totals.extend(Key::read(key).zip(Totals::read(value))))?;
        Ok(UdpBytes {
            evicted: added.saturating_sub(totals.len() as u64),
            refused,
            totals,
        })
    }
}

/// Numbers of [`UDP_COUNTS`].
const ADDED: u32 = 0;
const REFUSED: u32 = 1;

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

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_lab::{Skip, need, program};
    use std::process::Command;

    const ENTRIES: u32 = 64;
    const PROCESSES: u64 = 300;

    fn begin(engine: &BpfEngine) -> Result<UdpBytesWatch, Skip> {
        match UdpBytesWatch::begin_with(engine, &[(UDP_BYTES, ENTRIES)]) {
            Ok(watch) => Ok(watch),
            Err(unavailable) => Err(Skip::new(unavailable.to_string())),
        }
    }

    #[test]
    fn processes_that_make_room_for_others_are_counted() {
        need!(program("bash"));
        let engine = BpfEngine::default();
        let watch = need!(begin(&engine));
        // Each is another process. Nothing has to listen there.
        let script = format!("for ((n = 0; n < {PROCESSES}; n++)); do (echo x > /dev/udp/127.0.0.1/9); done");
        let status = Command::new("bash").args(["-c", &script]).status().unwrap();
        assert!(status.success());
        let counted = watch.totals().unwrap();
        let (present, evicted) = (counted.totals.len() as u64, counted.evicted);
        assert!(present <= u64::from(ENTRIES), "{present}");
        // Some of the host's other processes may be among them.
        assert!(present + evicted + counted.refused >= PROCESSES, "{counted:?}");
        assert!(
            evicted >= PROCESSES - u64::from(ENTRIES) - counted.refused,
            "{counted:?}"
        );
    }
}
