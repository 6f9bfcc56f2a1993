//! The numeric fields of a socket and their names in filters.

use crate::needs::Needs;
use crate::units::Quantity;
use sockeye_model::{Queues, Socket, is_name_of, is_same_name};

macro_rules! fields {
    ($($name:literal $(| $alias:literal)* => $field:ident($key:literal), $kind:ident, $needs:ident;)*) => {
        /// A numeric field of a socket. `Pid` and `Pgid` have one value per owner.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Field { $($field,)* }

        impl Field {
            /// All fields, with the name that is printed and the other short ones.
            pub(crate) const ALL: &[(&str, &[&str], Self)] = &[$(($name, &[$($alias),*], Self::$field),)*];

            /// Its JSON key and CSV field.
            pub(crate) const fn key(self) -> &'static str {
                match self { $(Self::$field => $key,)* }
            }

            pub(crate) const fn kind(self) -> Quantity {
                match self { $(Self::$field => Quantity::$kind,)* }
            }

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$field => $name,)* }
            }

            pub(crate) fn needs(self) -> Needs {
                match self { $(Self::$field => fields!(@needs $needs),)* }
            }
        }
    };
    (@needs nothing) => { Needs::default() };
    (@needs $field:ident) => { Needs { $field: true, ..Needs::default() } };
}

fields! {
    "pid" => Pid("pid"), Id, owners;
    "pgid" => Pgid("pgid"), Id, owners;
    "uid" | "user" => Uid("uid"), Id, nothing;
    "netns" => Netns("netns_inode"), Id, netns;
    "inode" | "ino" => Inode("inode"), Id, nothing;
    "cookie" => Cookie("cookie"), Id, nothing;
    "mark" => Mark("mark"), Id, mark;
    "recvq" | "recv_q" => RecvQ("recv_queue_bytes"), Bytes, nothing;
    "sendq" | "send_q" => SendQ("send_queue_bytes"), Bytes, nothing;
    "backlog" => Backlog("accept_backlog"), Count, nothing;
    "drops" => Drops("drops"), Count, memory;
    "idle" => Idle("idle_ms"), Time, tcp_info;
    "lastsnd" => LastDataSent("last_data_sent_ms"), Time, tcp_info;
    "lastrcv" => LastDataRecv("last_data_recv_ms"), Time, tcp_info;
    "lastack" => LastAckRecv("last_ack_recv_ms"), Time, tcp_info;
    "rtt" => Rtt("rtt_us"), Time, tcp_info;
    "rttvar" => RttVar("rttvar_us"), Time, tcp_info;
    "min_rtt" | "minrtt" => MinRtt("min_rtt_us"), Time, tcp_info;
    "rcv_rtt" => RcvRtt("rcv_rtt_us"), Time, tcp_info;
    "rto" => Rto("rto_us"), Time, tcp_info;
    "ato" => Ato("ato_us"), Time, tcp_info;
    "retrans" => Retrans("total_retrans_segs"), Count, tcp_info;
    "lost" => Lost("lost_segs"), Count, tcp_info;
    "unacked" => Unacked("unacked_segs"), Count, tcp_info;
    "sacked" => Sacked("sacked_segs"), Count, tcp_info;
    "cwnd" => Cwnd("snd_cwnd_segs"), Count, tcp_info;
    "ssthresh" => SsThresh("snd_ssthresh_segs"), Count, tcp_info;
    "reordering" => Reordering("reordering_segs"), Count, tcp_info;
    "mss" => Mss("snd_mss_bytes"), Bytes, tcp_info;
    "pmtu" => Pmtu("pmtu_bytes"), Bytes, tcp_info;
    "bytes_sent" => BytesSent("bytes_sent"), Bytes, tcp_info;
    "bytes_acked" => BytesAcked("bytes_acked"), Bytes, tcp_info;
    "bytes_received" => BytesReceived("bytes_received"), Bytes, tcp_info;
    "bytes_retrans" => BytesRetrans("bytes_retrans"), Bytes, tcp_info;
    "notsent" => NotSent("notsent_bytes"), Bytes, tcp_info;
    "snd_wnd" => SndWnd("snd_wnd_bytes"), Bytes, tcp_info;
    "rcv_wnd" => RcvWnd("rcv_wnd_bytes"), Bytes, tcp_info;
    "delivery_rate" => DeliveryRate("delivery_rate_bytes_per_s"), Rate, tcp_info;
    "pacing_rate" => PacingRate("pacing_rate_bytes_per_s"), Rate, tcp_info;
    "rcvbuf" => RcvBuf("rcvbuf_bytes"), Bytes, memory;
    "sndbuf" => SndBuf("sndbuf_bytes"), Bytes, memory;
    "rmem" => Rmem("rmem_alloc_bytes"), Bytes, memory;
    "wmem" => Wmem("wmem_alloc_bytes"), Bytes, memory;
}

impl Field {
    /// Returns the field with a name: one of its own, or its key, also without the unit.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let has_short = |name: &str, aliases: &[&str]| {
            is_same_name(word, name) || aliases.iter().any(|alias| is_same_name(word, alias))
        };
        let short = Self::ALL
            .iter()
            .find(|(name, aliases, _)| has_short(name, aliases));
        short
            .or_else(|| Self::ALL.iter().find(|(.., field)| is_name_of(word, field.key())))
            .map(|&(.., field)| field)
    }

    /// Returns the value in the unit of its kind; `None` if absent. Not for `Pid` and `Pgid`.
    #[inline]
    pub(crate) fn of(self, socket: &Socket) -> Option<u64> {
        let info = socket.tcp_info.as_ref();
        let mptcp = socket.mptcp_info.as_ref();
        let memory = socket.memory.as_ref();
        let us = |ms: u32| u64::from(ms) * 1000;
        let bits = |bytes: u64| bytes.saturating_mul(8);
        match self {
            Self::Pid | Self::Pgid => None,
            Self::Uid => socket.uid.map(|uid| uid.0.into()),
            Self::Netns => socket.netns.map(|netns| netns.0.into()),
            Self::Inode => socket.inode.map(|inode| inode.0.into()),
            Self::Cookie => socket.cookie.map(|cookie| cookie.0),
            Self::Mark => socket.mark.map(u64::from),
            Self::RecvQ => match socket.queues {
                Queues::Data { receive_bytes, .. } => Some(receive_bytes.into()),
                Queues::Accept { waiting, .. } => Some(waiting.into()),
                Queues::Unknown => None,
            },
            Self::SendQ => match socket.queues {
                Queues::Data { send_bytes, .. } => Some(send_bytes.into()),
                Queues::Accept { backlog, .. } => backlog.map(u64::from),
                Queues::Unknown => None,
            },
            Self::Backlog => match socket.queues {
                Queues::Accept { backlog, .. } => backlog.map(u64::from),
                _ => None,
            },
            Self::Drops => memory?.drops.map(u64::from),
            Self::RcvBuf => memory?.rcvbuf_bytes.map(u64::from),
            Self::SndBuf => memory?.sndbuf_bytes.map(u64::from),
            Self::Rmem => memory?.rmem_alloc_bytes.map(u64::from),
            Self::Wmem => memory?.wmem_alloc_bytes.map(u64::from),
            Self::Idle => socket.idle_ms().map(us),
            Self::LastDataSent => socket.last_data_sent_ms().map(us),
            Self::LastDataRecv => socket.last_data_recv_ms().map(us),
            Self::LastAckRecv => info
                .and_then(|info| info.last_ack_recv_ms)
                .or_else(|| mptcp?.last_ack_recv_ms)
                .map(us),
            Self::Rtt => info?.rtt_us.map(u64::from),
            Self::RttVar => info?.rttvar_us.map(u64::from),
            Self::MinRtt => info?.min_rtt_us.map(u64::from),
            Self::RcvRtt => info?.rcv_rtt_us.map(u64::from),
            Self::Rto => info?.rto_us.map(u64::from),
            Self::Ato => info?.ato_us.map(u64::from),
            Self::Retrans => info?.total_retrans_segs.map(u64::from),
            Self::Lost => info?.lost_segs.map(u64::from),
            Self::Unacked => info?.unacked_segs.map(u64::from),
            Self::Sacked => info?.sacked_segs.map(u64::from),
            Self::Cwnd => info?.snd_cwnd_segs.map(u64::from),
            Self::SsThresh => info?.snd_ssthresh_segs.map(u64::from),
            Self::Reordering => info?.reordering_segs.map(u64::from),
            Self::Mss => info?.snd_mss_bytes.map(u64::from),
            Self::Pmtu => info?.pmtu_bytes.map(u64::from),
            Self::BytesSent => info.and_then(|i| i.bytes_sent).or_else(|| mptcp?.bytes_sent),
            Self::BytesAcked => info.and_then(|i| i.bytes_acked).or_else(|| mptcp?.bytes_acked),
            Self::BytesReceived => info
                .and_then(|i| i.bytes_received)
                .or_else(|| mptcp?.bytes_received),
            Self::BytesRetrans => info
                .and_then(|i| i.bytes_retrans)
                .or_else(|| mptcp?.bytes_retrans),
            Self::NotSent => info?.notsent_bytes.map(u64::from),
            Self::SndWnd => info?.snd_wnd_bytes.map(u64::from),
            Self::RcvWnd => info?.rcv_wnd_bytes.map(u64::from),
            Self::DeliveryRate => info?.delivery_rate_bytes_per_s.map(bits),
            Self::PacingRate => info?.pacing_rate_bytes_per_s.map(bits),
        }
    }
}
