//! What limited a transfer, and what to do about it.
//!
//! No share of a sender's time shows that a processor was the limit: a receiver that cannot read faster
//! looks like a small window or a slow path. So a thread that worked nine tenths of the time is reported
//! first, and the shares after it.

mod amount;
mod drops;
mod processors;
mod shares;
#[cfg(test)]
mod tests;

use crate::transfer::{End, StreamTransfer, Transfer};
use crate::{Limit, LimitShares, Sentence, TypedCommand};
use amount::{bits, time};

/// Requested settings, as far as they limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestedLimits<'a> {
    /// The other end, as typed
    pub host: &'a str,
    /// Bytes per second of each stream; `None`: as fast as possible
    pub rate: Option<u64>,
    /// Fixed size of socket buffers, in bytes; `None`: the kernel sizes them
    pub window: Option<u64>,
    /// UDP instead of TCP
    pub is_udp: bool,
    /// Bytes per write or per datagram
    pub length: Option<u64>,
    /// The typed command, which remedies repeat
    pub command: Option<&'a TypedCommand>,
}

/// Returns what limited the transfer in this direction, the most important first.
#[must_use]
pub fn what_limited(transfer: &Transfer, is_sent: bool, limits: RequestedLimits<'_>) -> Vec<Sentence> {
    let streams: Vec<&StreamTransfer> = transfer.streams(is_sent).collect();
    let none = End::default();
    let theirs = transfer.theirs.as_ref().unwrap_or(&none);
    let (sender, receiver) = if is_sent {
        (&transfer.ours, theirs)
    } else {
        (theirs, &transfer.ours)
    };
    let analysis = LimitAnalysis {
        shares: LimitShares::of(streams.iter().filter_map(|stream| stream.sender.as_ref())),
        streams,
        sender: NamedEnd::new(sender, is_sent),
        receiver: NamedEnd::new(receiver, !is_sent),
        is_sent,
        limits,
    };
    analysis.sentences()
}

/// One end with its name in messages.
#[derive(Clone, Copy)]
struct NamedEnd<'a> {
    end: &'a End,
    /// `here`, `at the other end`
    at: &'static str,
    is_ours: bool,
}

impl<'a> NamedEnd<'a> {
    const fn new(end: &'a End, is_ours: bool) -> Self {
        let at = if is_ours { "here" } else { "at the other end" };
        Self { end, at, is_ours }
    }

    /// Returns a command to run at this end, with its reason.
    fn command(&self, command: &str, why: &str) -> String {
        format!("{command}    # {}: {why}", self.at)
    }
}

struct LimitAnalysis<'a> {
    streams: Vec<&'a StreamTransfer>,
    shares: Option<LimitShares>,
    sender: NamedEnd<'a>,
    receiver: NamedEnd<'a>,
    is_sent: bool,
    limits: RequestedLimits<'a>,
}

impl LimitAnalysis<'_> {
    fn sentences(&self) -> Vec<Sentence> {
        let mut list = Vec::new();
        list.extend(self.rate_reached());
        if list.is_empty() {
            list.extend(self.tester_limited());
        }
        list.extend(self.drops());
        if self.limits.is_udp {
            list.extend(self.datagrams());
        }
        if let Some(sentence) = self.too_short() {
            list.push(sentence);
            return list;
        }
        if let Some(shares) = &self.shares {
            for limit in shares.ranked() {
                let permille = shares.permille(limit);
                // A sender with a fixed rate waits on request, which is reported already.
                let is_reported = self.limits.rate.is_some()
                    && matches!(limit, Limit::Pace | Limit::Application | Limit::SendBuffer)
                    && list.iter().any(|sentence| sentence.code == "rate-reached");
                if permille >= SHARE_SHOWN_PERMILLE && !is_reported {
                    list.push(self.share(limit, permille));
                }
            }
        }
        let is_explained = |sentence: &Sentence| ["tester-limited", "rate-reached"].contains(&sentence.code);
        if !list.iter().any(is_explained) {
            list.extend(self.busy_host());
        }
        list
    }

    /// Shares of a short time mean nothing.
    fn too_short(&self) -> Option<Sentence> {
        let carried = self.streams.iter().filter_map(|stream| stream.carried_us()).max();
        let us = carried.filter(|&us| us < TOO_SHORT_US)?;
        let text = format!(
            "It was over after {}: too short to show what limited it.",
            time(us)
        );
        let has_size = self.limits.command.is_some_and(|it| it.has("-n"));
        let longer = self.rerun(|it| it.without("-n"), "for ten seconds");
        Some(Sentence::new("too-short", text).with(longer.filter(|_| has_size)))
    }

    /// The requested rate was reached.
    fn rate_reached(&self) -> Option<Sentence> {
        let rate = self.limits.rate? as f64 * self.streams.len() as f64;
        let sent: f64 = self
            .streams
            .iter()
            .filter_map(|stream| sent_bytes_per_s(stream))
            .sum();
        let text = format!("It was limited by the requested rate (-b): {}.", bits(rate));
        (rate > 0.0 && sent >= rate * 0.95).then(|| {
            Sentence::new("rate-reached", text).with(self.rerun(|it| it.with("-b", 0), "as fast as it gets"))
        })
    }

    /// Returns the typed command with a change, and its reason.
    fn rerun(&self, change: impl FnOnce(&TypedCommand) -> String, why: &str) -> Option<String> {
        self.limits
            .command
            .map(|command| format!("{}    # {why}", change(command)))
    }

    /// Returns the command with several streams, if there was one.
    fn more_streams(&self, count: u32, why: &str) -> Option<String> {
        self.rerun(|it| it.with("-P", count), why)
            .filter(|_| self.streams.len() == 1)
    }

    /// Returns the command with longer writes. A datagram longer than a packet would be fragmented: no remedy.
    fn longer_writes(&self, why: &str) -> Option<String> {
        let is_short = !self.limits.is_udp && self.limits.length.is_none_or(|bytes| bytes < LONG_WRITE);
        self.rerun(|it| it.with("-l", "1Mi"), why).filter(|_| is_short)
    }

    fn traceroute(&self) -> Option<String> {
        // Brackets are only needed with a port.
        let host = self.limits.host.trim_start_matches('[').trim_end_matches(']');
        Some(TypedCommand::new("tracepath -n", host).without(""))
    }
}

fn sent_bytes_per_s(stream: &StreamTransfer) -> Option<f64> {
    let side = stream.sent.as_ref().or(stream.received.as_ref())?;
    let elapsed = side.elapsed_us.filter(|&us| us > 0)?;
    Some(side.bytes? as f64 * 1e6 / elapsed as f64)
}

/// Smaller shares are not reported.
const SHARE_SHOWN_PERMILLE: f64 = 100.0;
/// The time of slow start and of the first interrupts.
const TOO_SHORT_US: u64 = 10_000;
const LONG_WRITE: u64 = 1 << 20;
