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
    "retransmits" => Retransmits("retransmits"), Count, tcp_info;
    "probes" => Probes("probes"), Count, tcp_info;
    "backoff" => Backoff("backoff"), Count, tcp_info;
    "snd_wscale" => SndWscale("snd_wscale"), Count, tcp_info;
    "rcv_wscale" => RcvWscale("rcv_wscale"), Count, tcp_info;
    "fastopen_client_fail" => FastopenClientFail("fastopen_client_fail"), Count, tcp_info;
    "rcv_mss" => RcvMss("rcv_mss_bytes"), Bytes, tcp_info;
    "retrans_segs" => RetransSegs("retrans_segs"), Count, tcp_info;
    "fackets" => Fackets("fackets_segs"), Count, tcp_info;
    "last_ack_sent" => LastAckSent("last_ack_sent_ms"), Time, tcp_info;
    "rcv_ssthresh" => RcvSsthresh("rcv_ssthresh_bytes"), Bytes, tcp_info;
    "advmss" => Advmss("advmss_bytes"), Bytes, tcp_info;
    "rcv_space" => RcvSpace("rcv_space_bytes"), Bytes, tcp_info;
    "max_pacing_rate" => MaxPacingRate("max_pacing_rate_bytes_per_s"), Rate, tcp_info;
    "segs_out" => SegsOut("segs_out"), Count, tcp_info;
    "segs_in" => SegsIn("segs_in"), Count, tcp_info;
    "data_segs_out" => DataSegsOut("data_segs_out"), Count, tcp_info;
    "data_segs_in" => DataSegsIn("data_segs_in"), Count, tcp_info;
    "busy_time" => BusyTime("busy_time_us"), Time, tcp_info;
    "rwnd_limited" => RwndLimited("rwnd_limited_us"), Time, tcp_info;
    "sndbuf_limited" => SndbufLimited("sndbuf_limited_us"), Time, tcp_info;
    "delivered" => Delivered("delivered_segs"), Count, tcp_info;
    "delivered_ce_segs" => DeliveredCeSegs("delivered_ce_segs"), Count, tcp_info;
    "dsack_dups" => DsackDups("dsack_dups"), Count, tcp_info;
    "reord_seen" => ReordSeen("reord_seen"), Count, tcp_info;
    "rcv_ooopack" => RcvOoopack("rcv_ooopack"), Count, tcp_info;
    "rehash" => Rehash("rehash"), Count, tcp_info;
    "total_rto" => TotalRto("total_rto"), Count, tcp_info;
    "total_rto_recoveries" => TotalRtoRecoveries("total_rto_recoveries"), Count, tcp_info;
    "total_rto_time" => TotalRtoTime("total_rto_time_ms"), Time, tcp_info;
    "received_ce_segs" => ReceivedCeSegs("received_ce_segs"), Count, tcp_info;
    "delivered_e1_bytes" => DeliveredE1Bytes("delivered_e1_bytes"), Bytes, tcp_info;
    "delivered_e0_bytes" => DeliveredE0Bytes("delivered_e0_bytes"), Bytes, tcp_info;
    "delivered_ce_bytes" => DeliveredCeBytes("delivered_ce_bytes"), Bytes, tcp_info;
    "received_e1_bytes" => ReceivedE1Bytes("received_e1_bytes"), Bytes, tcp_info;
    "received_e0_bytes" => ReceivedE0Bytes("received_e0_bytes"), Bytes, tcp_info;
    "received_ce_bytes" => ReceivedCeBytes("received_ce_bytes"), Bytes, tcp_info;
    "accecn_fail_mode" => AccecnFailMode("accecn_fail_mode"), Count, tcp_info;
    "accecn_opt_seen" => AccecnOptSeen("accecn_opt_seen"), Count, tcp_info;
    "fwd_alloc" => FwdAlloc("fwd_alloc_bytes"), Bytes, memory;
    "wmem_queued" => WmemQueued("wmem_queued_bytes"), Bytes, memory;
    "optmem" => Optmem("optmem_bytes"), Bytes, memory;
    "backlog_bytes" => BacklogBytes("backlog_bytes"), Bytes, memory;
    "timer_expires" => TimerExpires("timer_expires_ms"), Time, nothing;
    "timer_retransmits" => TimerRetransmits("timer_retransmits"), Count, nothing;
    "accept_queue" => AcceptQueue("accept_queue"), Count, nothing;
    "references" => References("references"), Count, nothing;
    "class_id" => ClassId("class_id"), Id, service_class;
    "tos" => Tos("tos"), Id, service_class;
    "tclass" => Tclass("tclass"), Id, service_class;
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
            Self::Retransmits => info?.retransmits.map(u64::from),
            Self::Probes => info?.probes.map(u64::from),
            Self::Backoff => info?.backoff.map(u64::from),
            Self::SndWscale => info?.snd_wscale.map(u64::from),
            Self::RcvWscale => info?.rcv_wscale.map(u64::from),
            Self::FastopenClientFail => info?.fastopen_client_fail.map(u64::from),
            Self::RcvMss => info?.rcv_mss_bytes.map(u64::from),
            Self::RetransSegs => info?.retrans_segs.map(u64::from),
            Self::Fackets => info?.fackets_segs.map(u64::from),
            Self::LastAckSent => info?.last_ack_sent_ms.map(us),
            Self::RcvSsthresh => info?.rcv_ssthresh_bytes.map(u64::from),
            Self::Advmss => info?.advmss_bytes.map(u64::from),
            Self::RcvSpace => info?.rcv_space_bytes.map(u64::from),
            Self::MaxPacingRate => info?.max_pacing_rate_bytes_per_s.map(bits),
            Self::SegsOut => info?.segs_out.map(u64::from),
            Self::SegsIn => info?.segs_in.map(u64::from),
            Self::DataSegsOut => info?.data_segs_out.map(u64::from),
            Self::DataSegsIn => info?.data_segs_in.map(u64::from),
            Self::BusyTime => info?.busy_time_us,
            Self::RwndLimited => info?.rwnd_limited_us,
            Self::SndbufLimited => info?.sndbuf_limited_us,
            Self::Delivered => info?.delivered_segs.map(u64::from),
            Self::DeliveredCeSegs => info?.delivered_ce_segs.map(u64::from),
            Self::DsackDups => info?.dsack_dups.map(u64::from),
            Self::ReordSeen => info?.reord_seen.map(u64::from),
            Self::RcvOoopack => info?.rcv_ooopack.map(u64::from),
            Self::Rehash => info?.rehash.map(u64::from),
            Self::TotalRto => info?.total_rto.map(u64::from),
            Self::TotalRtoRecoveries => info?.total_rto_recoveries.map(u64::from),
            Self::TotalRtoTime => info?.total_rto_time_ms.map(us),
            Self::ReceivedCeSegs => info?.received_ce_segs.map(u64::from),
            Self::DeliveredE1Bytes => info?.delivered_e1_bytes.map(u64::from),
            Self::DeliveredE0Bytes => info?.delivered_e0_bytes.map(u64::from),
            Self::DeliveredCeBytes => info?.delivered_ce_bytes.map(u64::from),
            Self::ReceivedE1Bytes => info?.received_e1_bytes.map(u64::from),
            Self::ReceivedE0Bytes => info?.received_e0_bytes.map(u64::from),
            Self::ReceivedCeBytes => info?.received_ce_bytes.map(u64::from),
            Self::AccecnFailMode => info?.accecn_fail_mode.map(u64::from),
            Self::AccecnOptSeen => info?.accecn_opt_seen.map(u64::from),
            Self::FwdAlloc => memory?.fwd_alloc_bytes.map(u64::from),
            Self::WmemQueued => memory?.wmem_queued_bytes.map(u64::from),
            Self::Optmem => memory?.optmem_bytes.map(u64::from),
            Self::BacklogBytes => memory?.backlog_bytes.map(u64::from),
            Self::TimerExpires => socket.timer.map(|timer| us(timer.expires_ms)),
            Self::TimerRetransmits => socket.timer.map(|timer| timer.retransmits.into()),
            Self::AcceptQueue => match socket.queues {
                Queues::Accept { waiting, .. } => Some(waiting.into()),
                _ => None,
            },
            Self::References => socket.references.map(u64::from),
            Self::ClassId => socket.class_id.map(u64::from),
            Self::Tos => socket.tos.map(u64::from),
            Self::Tclass => socket.tclass.map(u64::from),
        }
    }
}
