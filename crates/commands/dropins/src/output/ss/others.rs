//! Rows of UNIX, PACKET and NETLINK sockets.

use super::column_buffer::PROCESSES;
use super::level::SsLevel;
use super::line::{Line, until_parenthesis};
use super::row::SsRow;
use sockeye_model::iproute2::ETHERTYPES;
use sockeye_model::{Endpoint, Fanout, PacketInfo, Protocol, Ring};
use sockeye_output::number::push_decimal;

impl Line<'_> {
    pub(super) fn unix(&mut self, row: &SsRow<'_>) {
        let socket = row.socket;
        self.state(unix_netid(socket.protocol), socket);
        self.unix_end(&socket.local);
        // Of the peer the kernel reports only the inode.
        self.unix_end(&socket.peer);
        self.owners(row.owners);
        if row.is_brief {
            return;
        }
        if self.layout.memory {
            self.memory(socket);
        }
        if self.layout.extended {
            self.shutdown(socket);
            if let Some(file) = row.diag_details.file {
                let (major, minor) = (file.device >> 20, file.device & 0xf_ffff);
                // ss decodes the kernel's number with the C library, which expects another encoding.
                let (major, minor) = c_device(major, minor);
                self.text(&format!(" ino:{} dev:{major}/{minor}", file.inode));
            }
            if let Some(waiting) = row.diag_details.waiting() {
                self.text(" peers:");
                for inode in waiting {
                    self.number(" ", inode.into());
                }
            }
        }
    }

    fn unix_end(&mut self, end: &Endpoint) {
        let (name, inode) = match end {
            Endpoint::Unix { name, inode } => (*name, inode.map_or(0, |inode| inode.0)),
            _ => (None, 0),
        };
        match name {
            None => self.text("*"),
            Some(name) => match name.as_bytes() {
                // Every NUL becomes a `@`, not only the first one of an abstract name.
                bytes @ [0, ..] => {
                    let shown: Vec<u8> = bytes
                        .iter()
                        .map(|&byte| if byte == 0 { b'@' } else { byte })
                        .collect();
                    self.untrusted(&shown);
                }
                path => self.untrusted(path),
            },
        }
        self.text(" ");
        self.columns.next();
        push_decimal(self.out(), inode.into());
        self.columns.next();
    }

    pub(super) fn packet(&mut self, row: &SsRow<'_>) {
        let socket = row.socket;
        self.state(packet_netid(socket.protocol), socket);
        let (ethertype, interface) = match socket.local {
            Endpoint::Packet { ethertype, interface } => (ethertype, interface),
            _ => (0, None),
        };
        match ethertype {
            3 => self.text("*"),
            other => match ethertype_name(other, self.layout.level) {
                Some(name) if !self.layout.numeric => self.text(name),
                _ => self.text(&format!("[{other}]")),
            },
        }
        self.text(":");
        self.columns.next();
        match interface {
            None => self.text("*"),
            Some(index) => self.interface(index, socket),
        }
        self.no_peer();
        self.owners(row.owners);
        if self.layout.extended {
            self.details(socket);
            self.packet_details(row);
        }
        if self.layout.bpf
            && let Some(program) = row.diag_details.filter()
        {
            self.break_line_or_space();
            self.number("bpf filter (", program.len() as u64);
            self.text("): ");
            for instruction in program {
                self.text(&format!(
                    " 0x{:02x} {} {} {},",
                    instruction.code, instruction.jt, instruction.jf, instruction.k
                ));
            }
        }
        if self.layout.memory {
            self.memory(socket);
        }
    }

    fn packet_details(&mut self, row: &SsRow<'_>) {
        let details = row.diag_details;
        if let Some(info) = &details.packet {
            self.packet_info(info);
        }
        if let Some(ring) = &details.receive_ring {
            self.ring("ring_rx(", ring);
        }
        if let Some(ring) = &details.transmit_ring {
            self.ring("ring_tx(", ring);
        }
        if let Some(fanout) = details.fanout {
            self.fanout(fanout);
        }
    }

    fn packet_info(&mut self, info: &PacketInfo) {
        self.break_line_or_space();
        self.number("ver:", info.version.into());
        self.number(" cpy_thresh:", info.copy_threshold.into());
        self.text(" flags( ");
        for (bit, name) in [
            (0, "running"),
            (1, " auxdata"),
            (2, " origdev"),
            (3, " vnethdr"),
            (4, " loss"),
        ] {
            if info.flags & 1 << bit != 0 {
                self.text(name);
            }
        }
        self.text(if info.flags == 0 { "0 )" } else { " )" });
    }

    fn ring(&mut self, name: &str, ring: &Ring) {
        self.break_line_or_space();
        self.text(name);
        self.number("blk_size:", ring.block_size.into());
        self.number(",blk_nr:", ring.blocks.into());
        self.number(",frm_size:", ring.frame_size.into());
        self.number(",frm_nr:", ring.frames.into());
        self.number(",tmo:", ring.retire_timeout.into());
        self.text(&format!(",features:0x{:x})", ring.features));
    }

    fn fanout(&mut self, fanout: Fanout) {
        self.break_line_or_space();
        self.number("fanout(id:", fanout.id.into());
        self.text(",type:");
        match FANOUT_NAMES.get(usize::from(fanout.kind)) {
            Some(name) => self.text(name),
            None => self.text(&format!("0x{:x}", fanout.kind)),
        }
        self.text(")");
    }

    pub(super) fn netlink(&mut self, row: &SsRow<'_>) {
        let socket = row.socket;
        self.state("nl", socket);
        let (protocol, port) = match socket.local {
            Endpoint::Netlink { protocol, port, .. } => (protocol, port),
            _ => (0, 0),
        };
        match self.names.netlink_protocol(protocol) {
            Some(name) if !self.layout.numeric => self.untrusted(name.as_bytes()),
            _ => push_decimal(self.out(), protocol.into()),
        }
        self.text(":");
        self.columns.next();
        self.netlink_port(port);
        if let Endpoint::Netlink { port, group, .. } = socket.peer {
            self.columns.next();
            push_decimal(self.out(), group.unwrap_or(0).into());
            self.text(":");
            self.columns.next();
            self.signed(port);
            self.columns.next();
        } else {
            self.no_peer();
        }
        if !self.columns.shows(PROCESSES) {
            // Since 6.15 ss has these details in the column of processes, and loses them where it is not shown.
            return;
        }
        if self.layout.extended {
            let groups = row.diag_details.groups.unwrap_or(0);
            self.text(&format!(" sk=0 cb=0 groups=0x{groups:08x}"));
        }
        if self.layout.memory {
            self.text("\t");
            self.memory(socket);
        }
    }

    fn netlink_port(&mut self, port: u32) {
        if port == u32::MAX {
            return self.text("*");
        }
        if self.layout.numeric {
            return self.signed(port);
        }
        if port == 0 {
            return self.text("kernel");
        }
        // Greater port IDs are not pids.
        let process = if port <= i32::MAX.cast_unsigned() {
            self.names.process(port)
        } else {
            None
        };
        let name = process.as_ref().map(until_parenthesis);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.untrusted(name);
            self.text("/");
        }
        self.signed(port);
    }

    /// Ends the local port and appends an empty peer.
    fn no_peer(&mut self) {
        self.columns.next();
        self.text("*");
        self.columns.next();
        self.columns.next();
    }

    fn signed(&mut self, number: u32) {
        let signed = number.cast_signed();
        if signed < 0 {
            self.text("-");
        }
        push_decimal(self.out(), signed.unsigned_abs().into());
    }
}

const fn unix_netid(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::UnixStream => "u_str",
        Protocol::UnixSeqpacket => "u_seq",
        _ => "u_dgr",
    }
}

const fn packet_netid(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::PacketRaw => "p_raw",
        _ => "p_dgr",
    }
}

/// Decodes the kernel's internal device number (12 and 20 bits) as `major` and `minor` of the C library do.
const fn c_device(major: u32, minor: u32) -> (u32, u32) {
    let device = major << 20 | minor;
    (
        (device >> 8) & 0xfff,
        (device & 0xff) | (device >> 12) & 0xfff_ff00,
    )
}

/// Names of `PACKET_FANOUT_*`
const FANOUT_NAMES: [&str; 6] = ["hash", "lb", "cpu", "roll", "random", "qm"];

/// Returns the name in `ss`; that of 6.1 has none for CFM.
fn ethertype_name(ethertype: u16, level: SsLevel) -> Option<&'static str> {
    let has_cfm = level >= SsLevel::V6_15;
    let mut known = ETHERTYPES.iter().filter(|(_, name)| has_cfm || *name != "cfm");
    known
        .find(|(number, _)| *number == ethertype)
        .map(|(_, name)| *name)
}
