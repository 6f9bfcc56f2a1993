//! What holds a connection back, in words, from two readings of its times.

use crate::state::table::SocketId;
use sockeye_model::TcpInfo;
use std::time::Duration;

/// The last reading of a connection.
#[derive(Debug, Default)]
pub(super) struct LimitSampler {
    last: Option<(SocketId, Times)>,
}

/// Times and counters of tcp_info that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Times {
    busy_us: u64,
    receiver_us: u64,
    send_buffer_us: u64,
    retrans_segs: u64,
}

impl LimitSampler {
    /// Returns what held a connection back since its last reading, or since its begin. `elapsed`: since the last reading, if there was one.
    pub(super) fn sample(&mut self, socket: SocketId, info: &TcpInfo, elapsed: Option<Duration>) -> Box<str> {
        let now = Times {
            busy_us: info.busy_time_us.unwrap_or(0),
            receiver_us: info.rwnd_limited_us.unwrap_or(0),
            send_buffer_us: info.sndbuf_limited_us.unwrap_or(0),
            retrans_segs: info.total_retrans_segs.map_or(0, u64::from),
        };
        let before = self
            .last
            .filter(|(last, _)| *last == socket)
            .map(|(_, times)| times);
        self.last = Some((socket, now));
        if info.busy_time_us.is_none() {
            return "not known: the kernel reports no times".into();
        }
        if let Some(words) = unanswered(info) {
            return words.into();
        }
        let elapsed = elapsed.filter(|_| before.is_some());
        let elapsed_us = elapsed.and_then(|elapsed| u64::try_from(elapsed.as_micros()).ok());
        words(
            now.since(before.unwrap_or_default()),
            elapsed_us,
            Window::unused(info),
        )
        .into()
    }
}

impl Times {
    const fn since(self, before: Self) -> Self {
        Self {
            busy_us: self.busy_us.saturating_sub(before.busy_us),
            receiver_us: self.receiver_us.saturating_sub(before.receiver_us),
            send_buffer_us: self.send_buffer_us.saturating_sub(before.send_buffer_us),
            retrans_segs: self.retrans_segs.saturating_sub(before.retrans_segs),
        }
    }
}

/// A congestion window with space, while the application had sent all that it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    unacked_segs: u32,
    cwnd_segs: u32,
}

impl Window {
    /// Returns the window of a connection that its application did not fill when the kernel last measured it; else `None`.
    fn unused(info: &TcpInfo) -> Option<Self> {
        let (unacked_segs, cwnd_segs) = (info.unacked_segs?, info.snd_cwnd_segs?);
        let is_unused = info.delivery_rate_app_limited?
            && info.notsent_bytes.unwrap_or(0) == 0
            && unacked_segs < cwnd_segs;
        is_unused.then_some(Self {
            unacked_segs,
            cwnd_segs,
        })
    }
}

/// What is said of a connection whose retransmission timer expired several times in a row: its times would name the congestion window, which
/// is one segment then.
fn unanswered(info: &TcpInfo) -> Option<String> {
    let times = info
        .retransmits
        .filter(|times| *times >= UNANSWERED_RETRANSMITS_MIN)?;
    let segments = match info.unacked_segs.filter(|count| *count > 0)? {
        1 => "1 segment is".to_owned(),
        count => format!("{count} segments are"),
    };
    let since = info.last_ack_recv_ms.map_or_else(String::new, |ms| {
        format!("; the last acknowledgement came {} ago", tcp_ms(ms))
    });
    Some(format!(
        "the path or the peer: {segments} not acknowledged, although the timer of retransmissions expired {times} times{since}"
    ))
}

/// Milliseconds of tcp_info as a person reads them.
fn tcp_ms(ms: u32) -> String {
    match ms {
        0..1000 => format!("{ms}ms"),
        _ => format!("{}s", ms / 1000),
    }
}

/// One expiry is a lost packet.
const UNANSWERED_RETRANSMITS_MIN: u8 = 2;

/// Says what a connection waited for while it had data to send; or that it had none for most of the time.
fn words(times: Times, elapsed_us: Option<u64>, unused: Option<Window>) -> String {
    if times.busy_us == 0 {
        return "the application: it had nothing to send".to_owned();
    }
    if let Some(elapsed_us) = elapsed_us.filter(|elapsed_us| times.busy_us < elapsed_us / 2) {
        let percent = u128::from(times.busy_us) * 100 / u128::from(elapsed_us);
        return format!("the application: it had data to send for {percent} % of the time");
    }
    let share = |part: u64| (u128::from(part) * 100 / u128::from(times.busy_us)).min(100);
    let (receiver, send_buffer) = (share(times.receiver_us), share(times.send_buffer_us));
    let lost = match times.retrans_segs {
        0 => String::new(),
        1 => "; 1 segment was sent again".to_owned(),
        count => format!("; {count} segments were sent again"),
    };
    let limit = if receiver >= 50 {
        format!(
            "the peer's receive window, {receiver} % of the time with data to send: the peer reads too slowly, or its buffer is too small"
        )
    } else if send_buffer >= 50 {
        format!("our send buffer, {send_buffer} % of the time with data to send")
    } else if times.retrans_segs > 0 {
        "losses and the congestion window".to_owned()
    } else if let Some(window) = unused {
        // A peer that acknowledges late keeps data in flight all the time, however few.
        format!(
            "the application: it sends less than it may ({} of {} segments of the congestion window are in flight)",
            window.unacked_segs, window.cwnd_segs
        )
    } else {
        "the network: the congestion window and the round trip time".to_owned()
    };
    limit + &lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Cookie;

    #[track_caller]
    fn check(busy_us: u64, receiver_us: u64, send_buffer_us: u64, retrans_segs: u64, expected: &str) {
        let times = Times {
            busy_us,
            receiver_us,
            send_buffer_us,
            retrans_segs,
        };
        let words = words(times, None, None);
        assert!(words.starts_with(expected), "{words}");
    }

    /// Regression: the congestion window was said to hold a connection back whose packets all vanish.
    #[test]
    fn unanswered_connection_waits_for_the_path() {
        let mut info = TcpInfo {
            retransmits: Some(5),
            unacked_segs: Some(42),
            last_ack_recv_ms: Some(12_345),
            busy_time_us: Some(100),
            ..TcpInfo::default()
        };
        let socket = SocketId {
            netns: None,
            cookie: Cookie(1),
        };
        let words = LimitSampler::default().sample(socket, &info, None);
        assert_eq!(
            &*words,
            "the path or the peer: 42 segments are not acknowledged, although the timer of retransmissions expired 5 times; the last \
             acknowledgement came 12s ago"
        );
        info.retransmits = Some(1);
        let words = LimitSampler::default().sample(socket, &info, None);
        assert!(words.starts_with("the network"), "{words}");
    }

    #[test]
    fn largest_share_decides() {
        check(0, 0, 0, 0, "the application");
        check(100, 90, 0, 0, "the peer's receive window, 90 %");
        check(100, 0, 60, 0, "our send buffer, 60 %");
        check(100, 10, 10, 0, "the network");
        check(100, 10, 10, 2, "losses and the congestion window; 2 segments");
        check(u64::MAX, u64::MAX, 0, 0, "the peer's receive window, 100 %");
    }

    #[test]
    fn application_that_seldom_sends_holds_its_connection_back() {
        let times = Times {
            busy_us: 90_000,
            ..Times::default()
        };
        let seldom = "the application: it had data to send for 9 % of the time";
        assert_eq!(words(times, Some(1_000_000), None), seldom);
        assert!(words(times, Some(170_000), None).starts_with("the network"));
    }

    #[test]
    fn window_that_is_not_filled_is_no_limit() {
        let info = TcpInfo {
            delivery_rate_app_limited: Some(true),
            unacked_segs: Some(1),
            snd_cwnd_segs: Some(18),
            notsent_bytes: Some(0),
            ..TcpInfo::default()
        };
        let check = |info: &TcpInfo, retrans_segs, expected: &str| {
            let times = Times {
                busy_us: 100,
                retrans_segs,
                ..Times::default()
            };
            let words = words(times, Some(100), Window::unused(info));
            assert!(words.starts_with(expected), "{words}");
        };
        check(&info, 0, "the application: it sends less than it may (1 of 18");
        check(&info, 1, "losses");
        for (unacked, notsent, app_limited) in [(18, 0, true), (1, 1000, true), (1, 0, false)] {
            let other = TcpInfo {
                unacked_segs: Some(unacked),
                notsent_bytes: Some(notsent),
                delivery_rate_app_limited: Some(app_limited),
                ..info
            };
            check(&other, 0, "the network");
        }
        check(&TcpInfo::default(), 0, "the network");
    }

    #[test]
    fn only_what_changed_counts() {
        let socket = SocketId {
            netns: None,
            cookie: Cookie(1),
        };
        let info = |busy, receiver| TcpInfo {
            busy_time_us: Some(busy),
            rwnd_limited_us: Some(receiver),
            ..TcpInfo::default()
        };
        let mut limits = LimitSampler::default();
        assert!(
            limits
                .sample(socket, &info(100, 100), None)
                .starts_with("the peer's")
        );
        assert!(
            limits
                .sample(socket, &info(200, 100), None)
                .starts_with("the network")
        );
        assert!(
            limits
                .sample(socket, &info(200, 100), None)
                .starts_with("the application")
        );
        assert!(
            limits
                .sample(socket, &TcpInfo::default(), None)
                .starts_with("not known")
        );
    }
}
