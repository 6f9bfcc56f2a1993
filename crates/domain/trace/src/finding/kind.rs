//! The kinds of findings.

use crate::named::named;

named! {
    /// Kinds of findings. Each has one wording.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FindingKind {
        /// Nothing slowed it down
        Healthy = "healthy",
        /// Nothing slowed it down, and most of the time no end wanted to send
        HealthyIdle = "healthy_idle",
        /// The SYN was answered by RST
        Refused = "refused",
        /// Nothing answered the SYN
        Unanswered = "unanswered",
        /// A host reported by ICMP that the destination cannot be reached
        IcmpUnreachable = "icmp_unreachable",
        /// A host reported by ICMP that the connection is forbidden
        IcmpProhibited = "icmp_prohibited",
        /// A router reported by ICMP that a packet passed too many routers
        IcmpTimeExceeded = "icmp_time_exceeded",
        /// Only one direction was captured
        OneDirection = "one_direction",
        /// Timestamps of the capture run backwards
        BackwardTimes = "backward_times",
        /// The client waited for a name server before its SYN
        NameLookupSlow = "name_lookup_slow",
        /// A SYN or its answer was lost
        SynLost = "syn_lost",
        /// The handshake took many round trips, and nothing was lost
        SetupSlow = "setup_slow",
        /// The server's program took long
        ServerSlow = "server_slow",
        /// The client's program sent no request for much of the time
        ClientIdle = "client_idle",
        /// The sender's program wrote piece by piece, with pauses
        SenderPaced = "sender_paced",
        /// The receiver's window is small
        ReceiverWindow = "receiver_window",
        /// The receiver's program reads slowly: its window was closed
        SlowReader = "slow_reader",
        /// The receiver opens its window by less than a segment each time
        SillyWindow = "silly_window",
        /// The send buffer is small
        SendBuffer = "send_buffer",
        /// Small writes waited for delayed acknowledgements
        NagleDelayedAck = "nagle_delayed_ack",
        /// A queue on the path overflowed
        QueueOverflow = "queue_overflow",
        /// Segments were lost between the capture and the receiver
        PathLoss = "path_loss",
        /// Segments were lost between the sender and the capture
        LossBeforeCapture = "loss_before_capture",
        /// Retransmission timeouts
        RetransmissionTimeouts = "retransmission_timeouts",
        /// Segments were sent again without need
        SpuriousRetransmissions = "spurious_retransmissions",
        /// It is unknown whether segments or their acknowledgements were lost
        UnclearRetransmissions = "unclear_retransmissions",
        /// The path changed the order of segments
        Reordering = "reordering",
        /// The network delivered segments twice
        Duplicates = "duplicates",
        /// The capture has packets twice
        CapturedTwice = "captured_twice",
        /// The capture lacks packets that were delivered
        MissingInCapture = "missing_in_capture",
        /// A router reported the path's MTU, and the sender followed
        PmtuDiscovery = "pmtu_discovery",
        /// Large packets do not pass, and the sender does not make them smaller
        PmtuBlackHole = "pmtu_black_hole",
        /// Delays vary, whatever is in flight
        Jitter = "jitter",
        /// Delays grow with the data in flight: a long queue on the path
        Bufferbloat = "bufferbloat",
        /// The path or a growing congestion window set the pace, without losses
        PathLimited = "path_limited",
        /// One end answered no more
        PeerVanished = "peer_vanished",
        /// RST answered the first data after a long silence
        ResetAfterIdle = "reset_after_idle",
        /// One end reset the connection
        Reset = "reset",
    }
}
