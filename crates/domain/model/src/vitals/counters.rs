//! Counters of `/proc/net/snmp`, `netstat` and `snmp6` that rules of `check` and benchmarks read.
//! A new counter needs one line here; `host/source/src/vitals/` finds it by table and name.

use core::fmt;

macro_rules! counters {
    ($($name:ident = $table:literal $key:literal;)*) => {
        /// A counter of a network namespace, with the kernel's name. Only counters that rules use or that other counters are
        /// compared with; the kernel has many more.
        ///
        /// Source: `/proc/net/snmp`, `netstat` and `snmp6` (`net/ipv4/proc.c`, `net/ipv6/proc.c`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // the kernel's names
        pub enum Counter {
            $($name,)*
        }

        impl Counter {
            /// All counters.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns its table (`TcpExt`; in `snmp6` the prefix of its name) and its name there.
            #[must_use]
            pub const fn place(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => ($table, $key),)*
                }
            }
        }
    };
}

counters! {
    IpInReceives = "Ip" "InReceives";
    IpInDelivers = "Ip" "InDelivers";
    IpInHdrErrors = "Ip" "InHdrErrors";
    IpInAddrErrors = "Ip" "InAddrErrors";
    IpInUnknownProtos = "Ip" "InUnknownProtos";
    IpInDiscards = "Ip" "InDiscards";
    IpForwDatagrams = "Ip" "ForwDatagrams";
    IpOutRequests = "Ip" "OutRequests";
    IpOutDiscards = "Ip" "OutDiscards";
    IpOutNoRoutes = "Ip" "OutNoRoutes";
    IpReasmReqds = "Ip" "ReasmReqds";
    IpReasmFails = "Ip" "ReasmFails";
    IpFragFails = "Ip" "FragFails";
    IpFragCreates = "Ip" "FragCreates";
    IcmpInCsumErrors = "Icmp" "InCsumErrors";
    IcmpInDestUnreachs = "Icmp" "InDestUnreachs";
    TcpActiveOpens = "Tcp" "ActiveOpens";
    TcpPassiveOpens = "Tcp" "PassiveOpens";
    TcpAttemptFails = "Tcp" "AttemptFails";
    TcpEstabResets = "Tcp" "EstabResets";
    TcpInSegs = "Tcp" "InSegs";
    TcpOutSegs = "Tcp" "OutSegs";
    TcpRetransSegs = "Tcp" "RetransSegs";
    TcpInErrs = "Tcp" "InErrs";
    TcpOutRsts = "Tcp" "OutRsts";
    TcpInCsumErrors = "Tcp" "InCsumErrors";
    UdpInDatagrams = "Udp" "InDatagrams";
    UdpOutDatagrams = "Udp" "OutDatagrams";
    UdpNoPorts = "Udp" "NoPorts";
    UdpInErrors = "Udp" "InErrors";
    UdpRcvbufErrors = "Udp" "RcvbufErrors";
    UdpSndbufErrors = "Udp" "SndbufErrors";
    UdpInCsumErrors = "Udp" "InCsumErrors";
    UdpMemErrors = "Udp" "MemErrors";
    SyncookiesSent = "TcpExt" "SyncookiesSent";
    SyncookiesFailed = "TcpExt" "SyncookiesFailed";
    PruneCalled = "TcpExt" "PruneCalled";
    RcvPruned = "TcpExt" "RcvPruned";
    OfoPruned = "TcpExt" "OfoPruned";
    PawsEstab = "TcpExt" "PAWSEstab";
    ListenOverflows = "TcpExt" "ListenOverflows";
    ListenDrops = "TcpExt" "ListenDrops";
    TcpSackReneging = "TcpExt" "TCPSACKReneging";
    TcpLostRetransmit = "TcpExt" "TCPLostRetransmit";
    TcpTimeouts = "TcpExt" "TCPTimeouts";
    TcpSpuriousRtos = "TcpExt" "TCPSpuriousRTOs";
    TcpDsackRecv = "TcpExt" "TCPDSACKRecv";
    TcpFullUndo = "TcpExt" "TCPFullUndo";
    TcpPartialUndo = "TcpExt" "TCPPartialUndo";
    TcpDsackUndo = "TcpExt" "TCPDSACKUndo";
    TcpLossUndo = "TcpExt" "TCPLossUndo";
    TcpFromZeroWindowAdv = "TcpExt" "TCPFromZeroWindowAdv";
    TcpToZeroWindowAdv = "TcpExt" "TCPToZeroWindowAdv";
    TcpRcvCollapsed = "TcpExt" "TCPRcvCollapsed";
    TcpAbortOnData = "TcpExt" "TCPAbortOnData";
    TcpAbortOnClose = "TcpExt" "TCPAbortOnClose";
    TcpAbortOnLinger = "TcpExt" "TCPAbortOnLinger";
    TcpAbortOnMemory = "TcpExt" "TCPAbortOnMemory";
    TcpAbortOnTimeout = "TcpExt" "TCPAbortOnTimeout";
    TcpAbortFailed = "TcpExt" "TCPAbortFailed";
    TcpMemoryPressures = "TcpExt" "TCPMemoryPressures";
    TcpMemoryPressuresChrono = "TcpExt" "TCPMemoryPressuresChrono";
    TcpMd5NotFound = "TcpExt" "TCPMD5NotFound";
    TcpMd5Unexpected = "TcpExt" "TCPMD5Unexpected";
    TcpMd5Failure = "TcpExt" "TCPMD5Failure";
    TcpBacklogDrop = "TcpExt" "TCPBacklogDrop";
    PfMemallocDrop = "TcpExt" "PFMemallocDrop";
    TcpMinTtlDrop = "TcpExt" "TCPMinTTLDrop";
    TcpDeferAcceptDrop = "TcpExt" "TCPDeferAcceptDrop";
    IpReversePathFilter = "TcpExt" "IPReversePathFilter";
    TcpTimeWaitOverflow = "TcpExt" "TCPTimeWaitOverflow";
    TcpReqQFullDoCookies = "TcpExt" "TCPReqQFullDoCookies";
    TcpReqQFullDrop = "TcpExt" "TCPReqQFullDrop";
    TcpRetransFail = "TcpExt" "TCPRetransFail";
    TcpOfoDrop = "TcpExt" "TCPOFODrop";
    TcpFastOpenListenOverflow = "TcpExt" "TCPFastOpenListenOverflow";
    TcpSynRetrans = "TcpExt" "TCPSynRetrans";
    TcpMtupFail = "TcpExt" "TCPMTUPFail";
    TcpMtupSuccess = "TcpExt" "TCPMTUPSuccess";
    TcpZeroWindowDrop = "TcpExt" "TCPZeroWindowDrop";
    TcpRcvQDrop = "TcpExt" "TCPRcvQDrop";
    TcpWqueueTooBig = "TcpExt" "TCPWqueueTooBig";
    IpInNoRoutes = "IpExt" "InNoRoutes";
    IpInTruncatedPkts = "IpExt" "InTruncatedPkts";
    Ip6InReceives = "Ip6" "InReceives";
    Ip6InHdrErrors = "Ip6" "InHdrErrors";
    Ip6InTooBigErrors = "Ip6" "InTooBigErrors";
    Ip6InDiscards = "Ip6" "InDiscards";
    Ip6InNoRoutes = "Ip6" "InNoRoutes";
    Ip6OutRequests = "Ip6" "OutRequests";
    Ip6OutDiscards = "Ip6" "OutDiscards";
    Ip6OutNoRoutes = "Ip6" "OutNoRoutes";
    Ip6ReasmFails = "Ip6" "ReasmFails";
    Ip6ReasmReqds = "Ip6" "ReasmReqds";
    Ip6FragFails = "Ip6" "FragFails";
    Udp6InDatagrams = "Udp6" "InDatagrams";
    Udp6OutDatagrams = "Udp6" "OutDatagrams";
    Udp6NoPorts = "Udp6" "NoPorts";
    Udp6InErrors = "Udp6" "InErrors";
    Udp6RcvbufErrors = "Udp6" "RcvbufErrors";
    Udp6SndbufErrors = "Udp6" "SndbufErrors";
    Udp6InCsumErrors = "Udp6" "InCsumErrors";
    Udp6MemErrors = "Udp6" "MemErrors";
}

/// Writes the name as `nstat` does: `TcpExtListenOverflows`.
impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, name) = self.place();
        write!(f, "{table}{name}")
    }
}

/// Values of counters at one time; `None` if this kernel lacks the counter, or it was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters([Option<u64>; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([None; Counter::ALL.len()])
    }
}

impl Counters {
    /// Returns the value of a counter.
    #[must_use]
    pub const fn value(&self, counter: Counter) -> Option<u64> {
        self.0[counter as usize]
    }

    /// Sets the value of a counter.
    pub const fn set(&mut self, counter: Counter, value: u64) {
        self.0[counter as usize] = Some(value);
    }
}
