//! Rules about what waits in a socket, and what it dropped.

use crate::share::permille;
use crate::socket_counters::SocketCounters;
use crate::symptom::Symptom;
use crate::{Limit, Limits, Rule};
use sockeye_model::{Protocol, Queues, Socket, State};

pub(crate) fn unread(socket: &Socket, limits: &Limits) -> Option<Symptom> {
    // The FIN of the peer counts as a byte.
    let fin = u64::from(socket.state == State::CloseWait);
    let waiting = receive_queue(socket)?.saturating_sub(fin);
    if waiting < limits.of(Limit::UnreadBytes).max(1) {
        return None;
    }
    // A closed socket has no program that could read.
    socket.inode?;
    let since = u64::from(socket.tcp_info.as_ref()?.last_data_recv_ms?);
    let applies = since >= limits.of(Limit::UnreadFor);
    applies.then(|| {
        Symptom::new(Rule::Unread, waiting)
            .fact("recvq_bytes", waiting)
            .fact("waiting_ms", since)
            .fact(
                "rcv_wnd_bytes",
                socket.tcp_info.as_ref().and_then(|info| info.rcv_wnd_bytes),
            )
    })
}

/// `is_recent`: the change is that since an earlier sample, not that of the whole life.
pub(crate) fn dropped(
    socket: &Socket,
    change: &SocketCounters,
    is_recent: bool,
    limits: &Limits,
) -> Option<Symptom> {
    let is_tcp = socket.protocol == Protocol::Tcp;
    // TCP counts answered probes as drops, of keepalive or of a closed window. Segments without data may have
    // been such probes.
    let data = u64::from(change.received_data_segs);
    let without_data = change.received_segs.saturating_sub(change.received_data_segs);
    let drops = u64::from(change.drops).saturating_sub(if is_tcp { without_data.into() } else { 0 });
    // Between two samples one drop is enough; but TCP also drops duplicates, which is no loss.
    let least = if is_recent && !is_tcp {
        1
    } else {
        limits.of(Limit::SocketDropsCount)
    };
    let enough = !is_tcp || permille(drops, data.max(drops)) >= limits.of(Limit::SocketDropsShare);
    (drops > 0 && drops >= least && enough).then(|| {
        Symptom::new(Rule::SocketDrops, drops)
            .fact("drops", drops)
            .fact("received_data_segs", Some(data).filter(|_| is_tcp))
            .fact("recvq_bytes", receive_queue(socket))
            .fact(
                "rcvbuf_bytes",
                socket.memory.and_then(|memory| memory.rcvbuf_bytes),
            )
    })
}

/// `drops`: those since the earlier sample, or since the socket was created.
pub(crate) fn udp_unread(socket: &Socket, drops: u32, limits: &Limits) -> Option<Symptom> {
    let memory = socket.memory?;
    let (used, max) = (
        u64::from(memory.rmem_alloc_bytes?),
        u64::from(memory.rcvbuf_bytes?),
    );
    let share = permille(used, max);
    let applies = used > 0 && share >= limits.of(Limit::UdpUnreadShare);
    applies.then(|| {
        Symptom::new(Rule::UdpUnread, share)
            .fact("share_permille", share)
            .fact("recvq_bytes", used)
            .fact("rcvbuf_bytes", max)
            .fact("drops", memory.drops.map(|_| drops))
    })
}

fn receive_queue(socket: &Socket) -> Option<u64> {
    match socket.queues {
        Queues::Data { receive_bytes, .. } => Some(receive_bytes.into()),
        Queues::Accept { .. } | Queues::Unknown => None,
    }
}
