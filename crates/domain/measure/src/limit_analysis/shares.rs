//! Sentences about the largest shares of the sender's time.

use super::amount::{bits, bytes, or_unknown, percent, time};
use super::drops::{UNNAMED, device_word};
use super::{LimitAnalysis, NamedEnd};
use crate::transfer::Sender;
use crate::{Limit, Sentence};

impl LimitAnalysis<'_> {
    pub(super) fn share(&self, limit: Limit, permille: f64) -> Sentence {
        let share = percent(permille);
        match limit {
            Limit::Application => self.application(&share),
            Limit::ReceiverWindow => self.receiver_window(&share),
            Limit::SendBuffer => self.send_buffer(&share),
            Limit::CongestionWindow => self.congestion(&share),
            Limit::Pace => self.pacing(&share),
            Limit::FastRecovery => self.recovery("recovery-limited", &share, "it recovered from losses"),
            Limit::Timeout => {
                self.recovery("timeout-limited", &share, "it waited for retransmission timeouts")
            }
        }
    }

    fn application(&self, share: &str) -> Sentence {
        let text = format!(
            "{share} of the time nothing was there to be sent: the program {} did not write fast enough.",
            self.sender.at
        );
        Sentence::new("application-limited", text)
            .with(self.longer_writes("more with each write"))
            .with(self.more_streams(2, "a thread for each stream"))
    }

    fn receiver_window(&self, share: &str) -> Sentence {
        let (to, work) = (self.receiver.at, &self.receiver.end.work);
        let window = self.most(|it| it.window_bytes);
        let bound = window
            .zip(self.rtt())
            .filter(|&(_, us)| us > 0)
            .map(|(window, us)| {
                let rate = window as f64 * 1e6 / us as f64;
                format!(
                    ": {} each round trip of {} are {} for a stream",
                    bytes(window),
                    time(us),
                    bits(rate)
                )
            });
        let text = format!(
            "{share} of the time the receiver's window was full{}.",
            bound.unwrap_or_default()
        );
        let wider = if self.limits.window.is_some() {
            self.wider_maximum("rmem_max", work.rmem_max_bytes, to)
        } else {
            let wider = work
                .tcp_rmem_max_bytes
                .unwrap_or(0)
                .saturating_mul(4)
                .max(BUFFER_LEAST);
            Some(format!(
                "sysctl -w net.ipv4.tcp_rmem='4096 131072 {wider}'    # {to}"
            ))
        };
        Sentence::new("receiver-limited", text)
            .with(self.sized_by_kernel())
            .with(wider)
            .with(self.more_streams(4, "each stream has a window of its own"))
    }

    fn send_buffer(&self, share: &str) -> Sentence {
        let (from, work) = (self.sender.at, &self.sender.end.work);
        let text = format!(
            "{share} of the time the send buffer {from} was full ({}): what is in it waits for acknowledgements{}.",
            or_unknown(self.most(|it| it.sndbuf_bytes), bytes),
            self.rtt()
                .map_or(String::new(), |us| format!(", which take {}", time(us)))
        );
        let wider = if self.limits.window.is_some() {
            self.wider_maximum("wmem_max", work.wmem_max_bytes, from)
        } else {
            work.tcp_wmem_max_bytes.map(|max| {
                let wider = max.saturating_mul(4).max(BUFFER_LEAST);
                format!("sysctl -w net.ipv4.tcp_wmem='4096 65536 {wider}'    # {from}")
            })
        };
        Sentence::new("send-buffer-limited", text)
            .with(self.sized_by_kernel())
            .with(wider)
            .with(self.more_streams(4, "each stream has a buffer of its own"))
    }

    fn congestion(&self, share: &str) -> Sentence {
        let mut text = format!(
            "{share} of the time the congestion window was full ({}",
            self.congestion_control()
        );
        if let (Some(cwnd), Some(mss)) = (self.most(|it| it.cwnd_segs), self.most(|it| it.mss_bytes)) {
            text.push_str(&format!(", {cwnd} segments of {mss} bytes"));
        }
        let rtt = self.rtt();
        if let Some(rtt) = rtt {
            text.push_str(&format!(", round trip {}", time(rtt)));
        }
        text.push_str("): the path carries no more, as far as the sender knows.");
        let queued = rtt
            .zip(self.most(|it| it.min_rtt_us))
            .filter(|&(rtt, least)| rtt >= least.saturating_mul(5) && rtt - least >= 5000);
        if let Some((rtt, least)) = queued {
            text.push_str(&format!(
                " Packets wait in a queue on the way: the round trip is {} instead of {}.",
                time(rtt),
                time(least)
            ));
        }
        let show = format!("tc -s qdisc show dev {}", self.device(self.sender));
        let why = "do several get more? Then it was not the path's rate";
        Sentence::new("congestion-limited", text)
            .with([self.sender.command(&show, "is it shaped here?")])
            .with(self.traceroute())
            .with(self.more_streams(4, why))
    }

    fn pacing(&self, share: &str) -> Sentence {
        let name = self.congestion_control();
        let pace = self.sum(|it| it.pacing_bytes_per_s);
        let text = format!(
            "{share} of the time there was room in both windows, but the sender kept its pace ({}, congestion \
             control {name}): as fast as it takes the path to be.",
            or_unknown(pace, |rate| bits(rate as f64))
        );
        let other = if name == "cubic" { "reno" } else { "cubic" };
        Sentence::new("pacing-limited", text)
            .with(self.rerun(|it| it.with("-C", other), "does another one find more?"))
            .with(self.traceroute())
    }

    fn recovery(&self, code: &'static str, share: &str, what: &str) -> Sentence {
        let again = self.sum(|it| it.retransmitted_segs).unwrap_or(0);
        let all = self.sum(|it| it.data_segs).unwrap_or(0);
        let text = format!(
            "{share} of the time {what}: {again} of {all} segments were sent again ({}).",
            percent(again as f64 * 1000.0 / all.max(1) as f64)
        );
        let queue = format!("tc -s qdisc show dev {}", self.device(self.sender));
        // Without a report of the other end it is unknown.
        let device = self.device(self.receiver);
        let link = (device != UNNAMED).then(|| {
            let show = format!("ip -s link show dev {device}");
            self.receiver.command(&show, "does it?")
        });
        Sentence::new(code, text)
            .with([self.sender.command(&queue, "does its queue drop?")])
            .with(link)
            .with(self.traceroute())
    }

    /// Returns the command without a size of buffers, if one was requested.
    fn sized_by_kernel(&self) -> Option<String> {
        self.rerun(|it| it.without("-w"), "the kernel sizes it then")
            .filter(|_| self.limits.window.is_some())
    }

    fn wider_maximum(&self, setting: &str, max: Option<u64>, at: &str) -> Option<String> {
        let wider = max?.saturating_mul(4);
        Some(format!(
            "sysctl -w net.core.{setting}={wider}    # {at}: no -w gets more than this"
        ))
    }

    fn congestion_control(&self) -> &str {
        self.sender.end.congestion.as_deref().unwrap_or("unknown")
    }

    /// Round-trip time in microseconds, the longest of all streams.
    fn rtt(&self) -> Option<u64> {
        self.most(|it| it.rtt_us)
    }

    fn most<T: Ord>(&self, of: fn(&Sender) -> Option<T>) -> Option<T> {
        self.senders().filter_map(of).max()
    }

    fn sum(&self, of: fn(&Sender) -> Option<u64>) -> Option<u64> {
        self.senders().filter_map(of).reduce(u64::saturating_add)
    }

    fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.streams.iter().filter_map(|stream| stream.sender.as_ref())
    }

    /// The device that carried most.
    fn device(&self, end: NamedEnd<'_>) -> String {
        let is_sender = end.is_ours == self.is_sent;
        let first = end.end.devices.iter().max_by_key(|device| {
            if is_sender {
                device.numbers.tx_bytes
            } else {
                device.numbers.rx_bytes
            }
        });
        first.map_or_else(|| UNNAMED.to_owned(), |device| device_word(&device.name))
    }
}

/// Least maximum that makes sense for an automatically sized buffer.
const BUFFER_LEAST: u64 = 16 << 20;
