//! The error of decoders in this crate: which layer, at which offset, how many bytes are missing. `model` and
//! `source` pass it on. It is `Copy` and borrows nothing, so that an invalid record costs no allocation.

use core::fmt;

/// A decoding error: bytes that are not valid in their format.
///
/// It names the layer of the encoding, the offset in the parser's buffer, and the number of bytes needed and
/// found there. In text, invalid characters do not count as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// The encoding with the error.
    pub layer: Layer,
    /// Offset in bytes from the start of the buffer given to the parser.
    pub offset: usize,
    /// Bytes needed at `offset`.
    pub needed: usize,
    /// Bytes found at `offset`.
    pub got: usize,
}

/// The encodings this crate reads, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layer {
    /// `struct nlmsghdr`
    NetlinkHeader,
    /// `struct nlmsgerr`, and the code of `NLMSG_DONE`
    NetlinkError,
    /// `struct nlattr`
    Attribute,
    /// `struct inet_diag_msg`
    InetDiag,
    /// `struct unix_diag_msg`
    UnixDiag,
    /// `struct packet_diag_msg`
    PacketDiag,
    /// `struct netlink_diag_msg`
    NetlinkDiag,
    /// `struct ifinfomsg`
    RouteLink,
    /// `struct ifaddrmsg`
    RouteAddress,
    /// `struct tcmsg`
    RouteQdisc,
    /// `struct rtmsg`
    RouteLookup,
    /// `struct ndmsg`
    RouteNeighbour,
    /// `struct ndtmsg`
    RouteNeighbourTable,
    /// `struct genlmsghdr`
    GenericNetlink,
    /// `struct rtgenmsg` of a network namespace id
    RouteNsid,
    /// nf_tables
    NfTables,
    /// `struct nfgenmsg` of a tracked connection
    Conntrack,
    /// A line of `/proc/net/tcp`, `udp`, `raw` and their like
    ProcNetInet,
    /// A line of `/proc/net/unix`
    ProcNetUnix,
    /// A line of `/proc/net/packet`
    ProcNetPacket,
    /// A line of `/proc/net/netlink`
    ProcNetNetlink,
    /// `/proc/PID/stat`
    ProcPidStat,
    /// A record in the ring of a perf event
    PerfRecord,
    /// `struct btf_header`
    BtfHeader,
    /// The types of a BTF blob
    BtfTypes,
    /// The strings of a BTF blob
    BtfStrings,
    /// `.BTF.ext` of a compiled program
    BtfExt,
    /// A record of a capture file that is skipped
    CaptureRecord,
    /// The header of a pcap file
    PcapHeader,
    /// A packet of a pcap file
    PcapPacket,
    /// A block of a pcapng file
    PcapngBlock,
    /// The section header of a pcapng file
    PcapngSection,
    /// An interface of a pcapng file
    PcapngInterface,
    /// A packet of a pcapng file
    PcapngPacket,
    /// The header of a snoop file
    SnoopHeader,
    /// A packet of a snoop file
    SnoopPacket,
    /// A record of an ERF file
    ErfRecord,
    /// A link-layer header
    Link,
    /// Ethernet, with its tags
    Ethernet,
    /// A header between Ethernet and IP: MPLS, `PPPoE`, LLC
    Shim,
    /// IPv4
    Ipv4,
    /// IPv6, with its extension headers
    Ipv6,
    /// The header of a tunnel: GRE, VXLAN, Geneve
    Tunnel,
    /// UDP
    Udp,
    /// TCP
    Tcp,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            layer,
            offset,
            needed,
            got,
        } = self;
        let layer = match layer {
            Layer::NetlinkHeader => "netlink header",
            Layer::NetlinkError => "netlink error message",
            Layer::Attribute => "netlink attribute",
            Layer::InetDiag => "inet_diag message",
            Layer::UnixDiag => "unix_diag message",
            Layer::PacketDiag => "packet_diag message",
            Layer::NetlinkDiag => "netlink_diag message",
            Layer::RouteLink => "rtnetlink message about a link",
            Layer::RouteAddress => "rtnetlink message about an address",
            Layer::RouteQdisc => "rtnetlink message about a queueing discipline",
            Layer::RouteLookup => "rtnetlink message about a route",
            Layer::RouteNeighbour => "rtnetlink message about a neighbour",
            Layer::RouteNeighbourTable => "rtnetlink message about a table of neighbours",
            Layer::GenericNetlink => "generic netlink message",
            Layer::NfTables => "nf_tables message",
            Layer::Conntrack => "ctnetlink message",
            Layer::RouteNsid => "rtnetlink message about a network namespace",
            Layer::ProcNetInet => "line of /proc/net/{tcp,udp,raw}",
            Layer::ProcNetUnix => "line of /proc/net/unix",
            Layer::ProcNetPacket => "line of /proc/net/packet",
            Layer::ProcNetNetlink => "line of /proc/net/netlink",
            Layer::ProcPidStat => "/proc/PID/stat",
            Layer::PerfRecord => "record of a perf event",
            Layer::BtfHeader => "BTF header",
            Layer::BtfTypes => "BTF types",
            Layer::BtfStrings => "BTF strings",
            Layer::BtfExt => ".BTF.ext",
            Layer::CaptureRecord => "record of the capture file",
            Layer::PcapHeader => "header of the pcap file",
            Layer::PcapPacket => "packet of the pcap file",
            Layer::PcapngBlock => "block of the pcapng file",
            Layer::PcapngSection => "section header of the pcapng file",
            Layer::PcapngInterface => "interface block of the pcapng file",
            Layer::PcapngPacket => "packet block of the pcapng file",
            Layer::SnoopHeader => "header of the snoop file",
            Layer::SnoopPacket => "packet of the snoop file",
            Layer::ErfRecord => "record of the ERF file",
            Layer::Link => "link header",
            Layer::Ethernet => "Ethernet header",
            Layer::Shim => "header between Ethernet and IP",
            Layer::Ipv4 => "IPv4 header",
            Layer::Ipv6 => "IPv6 header",
            Layer::Tunnel => "tunnel header",
            Layer::Udp => "UDP header",
            Layer::Tcp => "TCP header",
        };
        write!(f, "{layer} at offset {offset}: needs {needed} bytes, has {got}")
    }
}

impl core::error::Error for Error {}
