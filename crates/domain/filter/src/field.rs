//! The numeric fields of a socket and their names in filters.

use crate::needs::Needs;
use crate::units::Quantity;
use sockeye_model::{Queues, Socket};

macro_rules! fields {
    ($($name:literal $(| $alias:literal)* => $field:ident, $kind:ident, $needs:ident;)*) => {
        /// A numeric field of a socket. `Pid` and `Pgid` have one value per owner.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Field { $($field,)* }

        impl Field {
            /// All fields by name; the first name of a field is printed.
            pub(crate) const NAMES: &[(&str, Self)] =
                &[$(($name, Self::$field), $(($alias, Self::$field),)*)*];

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
    "pid" => Pid, Id, owners;
    "pgid" => Pgid, Id, owners;
    "uid" | "user" => Uid, Id, nothing;
    "netns" => Netns, Id, netns;
    "inode" | "ino" => Inode, Id, nothing;
    "cookie" => Cookie, Id, nothing;
    "mark" => Mark, Id, mark;
    "recvq" | "recv_q" => RecvQ, Bytes, nothing;
    "sendq" | "send_q" => SendQ, Bytes, nothing;
    "backlog" => Backlog, Count, nothing;
    "drops" => Drops, Count, memory;
    "idle" => Idle, Time, tcp_info;
    "lastsnd" | "last_data_sent" => LastDataSent, Time, tcp_info;
    "lastrcv" | "last_data_recv" => LastDataRecv, Time, tcp_info;
    "lastack" | "last_ack_recv" => LastAckRecv, Time, tcp_info;
    "rtt" => Rtt, Time, tcp_info;
    "rttvar" => RttVar, Time, tcp_info;
    "min_rtt" | "minrtt" => MinRtt, Time, tcp_info;
    "rcv_rtt" => RcvRtt, Time, tcp_info;
    "rto" => Rto, Time, tcp_info;
    "ato" => Ato, Time, tcp_info;
    "retrans" | "total_retrans" => Retrans, Count, tcp_info;
    "lost" => Lost, Count, tcp_info;
    "unacked" => Unacked, Count, tcp_info;
    "sacked" => Sacked, Count, tcp_info;
    "cwnd" => Cwnd, Count, tcp_info;
    "ssthresh" => SsThresh, Count, tcp_info;
    "reordering" => Reordering, Count, tcp_info;
    "mss" => Mss, Bytes, tcp_info;
    "pmtu" => Pmtu, Bytes, tcp_info;
    "bytes_sent" => BytesSent, Bytes, tcp_info;
    "bytes_acked" => BytesAcked, Bytes, tcp_info;
    "bytes_received" => BytesReceived, Bytes, tcp_info;
    "bytes_retrans" => BytesRetrans, Bytes, tcp_info;
    "notsent" => NotSent, Bytes, tcp_info;
    "snd_wnd" => SndWnd, Bytes, tcp_info;
    "rcv_wnd" => RcvWnd, Bytes, tcp_info;
    "delivery_rate" => DeliveryRate, Rate, tcp_info;
    "pacing_rate" => PacingRate, Rate, tcp_info;
    "rcvbuf" => RcvBuf, Bytes, memory;
    "sndbuf" => SndBuf, Bytes, memory;
    "rmem" => Rmem, Bytes, memory;
    "wmem" => Wmem, Bytes, memory;
}

impl Field {
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
