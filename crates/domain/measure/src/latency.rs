//! Response times, and how reliable they are.

use crate::duration::duration;
use crate::{Histogram, Sentence, TypedCommand};

/// Results of a request-response benchmark, over persistent connections or one per request.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    /// Time from sending a request (by schedule, if there is one) to the end of its answer.
    pub delays: Histogram,
    /// Time to connect, if each request has its own connection.
    pub connects: Option<Histogram>,
    /// Delay of requests behind the schedule, caused by this tester.
    pub lateness: Option<Histogram>,
    /// Requests sent.
    pub sent: u64,
    /// Requests that were due but not sent.
    pub unsent: u64,
    /// Requests without an answer.
    pub lost: u64,
    /// Answers that arrived late or twice.
    pub strays: u64,
    /// Connections that failed.
    pub failed: u64,
    /// Nanoseconds from the beginning to the last answer.
    pub elapsed_ns: u64,
    /// Requested rate in requests per second.
    pub requested_rate: Option<f64>,
    /// Number of simultaneous connections.
    pub connections: u64,
    /// Whether threads poll all the time: then their processor time means nothing.
    pub spins: bool,
    /// Processor time of this end's threads.
    pub here: Load,
    /// Processor time of the other end, if reported.
    pub there: Option<Load>,
}

/// Processor time of one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Sum over all threads.
    pub cpu_ns: u64,
    /// The thread with the most.
    pub busiest_ns: u64,
}

impl Latency {
    /// Answers per second.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.delays.count() as f64 / (self.elapsed_ns as f64 / 1e9))
    }

    /// Busy time of the busiest thread, in thousandths of the run.
    #[must_use]
    pub fn busy_permille(&self, load: &Load) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| load.busiest_ns as f64 / self.elapsed_ns as f64 * 1000.0)
    }

    /// Adds the results of another run.
    pub fn merge(&mut self, other: &Self) {
        self.delays.merge(&other.delays);
        for (mine, theirs) in [
            (&mut self.connects, &other.connects),
            (&mut self.lateness, &other.lateness),
        ] {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(theirs);
            }
        }
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.lost += other.lost;
        self.strays += other.strays;
        self.failed += other.failed;
        self.elapsed_ns += other.elapsed_ns;
        self.here.add(other.here);
        self.there = self.there.zip(other.there).map(|(mut mine, theirs)| {
            mine.add(theirs);
            mine
        });
    }

    /// Conclusions, the most important first.
    #[must_use]
    pub fn sentences(&self, command: &TypedCommand) -> Vec<Sentence> {
        let all = [
            self.failures(),
            self.losses(),
            self.rate_not_reached(),
            self.busy_tester(),
            self.late_tester(command),
            self.stall_not_counted(command),
            self.few_samples(),
        ];
        all.into_iter().flatten().collect()
    }

    fn failures(&self) -> Option<Sentence> {
        (self.failed > 0).then(|| {
            let text = format!(
                "{} of {} connections were cut off before their answer was there; they are not in the percentiles.",
                self.failed, self.sent
            );
            let check = "sockeye check    # at the other end: full accept queues, resets";
            Sentence::new("connections-failed", text).with([check.to_owned()])
        })
    }

    fn losses(&self) -> Option<Sentence> {
        (self.lost > 0).then(|| {
            Sentence::new(
                "unanswered",
                format!(
                    "{} of {} requests had no answer within a second; they are not in the percentiles.",
                    self.lost, self.sent
                ),
            )
        })
    }

    fn rate_not_reached(&self) -> Option<Sentence> {
        let requested = self.requested_rate?;
        let rate = self.rate()?;
        let due = self.sent + self.unsent;
        if self.unsent * 100 <= due && rate >= requested * REACHED_PART {
            return None;
        }
        let reason = if self.is_busy(&self.here) {
            "a thread of this end was busy all the time: the tester itself was the limit. More connections (-P) have more \
             threads"
        } else if self.there.as_ref().is_some_and(|there| self.is_busy(there)) {
            "a thread of the other end was busy all the time. More connections (-P) have more threads there too"
        } else if self.connects.is_some() {
            "each of the connections waits for its answer before the next is made. More at once (-P) ask more often"
        } else {
            "the path or the other end took no more"
        };
        Some(Sentence::new(
            "rate-not-reached",
            format!(
                "The requested rate was not reached: {rate:.0} instead of {requested:.0} a second, and {} requests that were due \
                 were never sent: their delays are missing here; {reason}.",
                self.unsent
            ),
        ))
    }

    /// Without a schedule no request is late, but the rate shows the tester's limit.
    fn busy_tester(&self) -> Option<Sentence> {
        let applies = self.requested_rate.is_none() && !self.spins && self.is_busy(&self.here);
        applies.then(|| {
            Sentence::new(
                "tester-limited",
                "A thread of this end was busy all the time: the tester itself was the limit, not the path.",
            )
        })
    }

    fn late_tester(&self, command: &TypedCommand) -> Option<Sentence> {
        let late = self.lateness.as_ref()?.percentile(Histogram::P99)?;
        let delay = self.delays.percentile(Histogram::P99)?;
        (late > 1000 && late * 2 >= delay).then(|| {
            let mut sentence = Sentence::new(
                "tester-late",
                format!(
                    "One request in a hundred left this end {} or more after its time, which is in its delay of {}: this host \
                     was busy or asleep, not the path.",
                    duration(late),
                    duration(delay)
                ),
            );
            sentence.remedy(format!("{}    # a processor of its own", command.with("-A", 0)));
            sentence
        })
    }

    fn stall_not_counted(&self, command: &TypedCommand) -> Option<Sentence> {
        let median = self.delays.percentile(Histogram::P50)?;
        let max = self.delays.max()?;
        let is_stalled = self.requested_rate.is_none() && max > STALLED_NS && max / STALLED_TIMES > median;
        is_stalled.then(|| {
            let mut sentence = Sentence::new(
                "stalls-counted-once",
                format!(
                    "The longest took {}, {} times the median. Each connection waits for its answer, so that requests which \
                     would have come meanwhile are not in the percentiles; with a rate they are.",
                    duration(max),
                    max / median.max(1)
                ),
            );
            if let Some(rate) = self.rate() {
                // Half of the possible rate leaves capacity to catch up.
                sentence.remedy(command.with("--rate", format!("{:.0}", (rate / 2.0).max(1.0))));
            }
            sentence
        })
    }

    fn few_samples(&self) -> Option<Sentence> {
        let count = self.delays.count();
        (count > 0 && count < FEW_ANSWERS).then(|| {
            let how_few = match count {
                1..100 => "p99 and beyond are",
                100..1000 => "p99.9 and p99.99 are",
                _ => "p99.99 is",
            };
            let were = if count == 1 {
                "was 1 answer"
            } else {
                &format!("were {count} answers")
            };
            Sentence::new(
                "few-requests",
                format!("There {were}: {how_few} only the longest of them; measure longer for more."),
            )
        })
    }

    fn is_busy(&self, load: &Load) -> bool {
        self.busy_permille(load).is_some_and(|busy| busy >= BUSY_PERMILLE)
    }
}

impl Load {
    fn add(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.busiest_ns += other.busiest_ns;
    }
}

/// The last requests of a run may be missing.
const REACHED_PART: f64 = 0.98;
const BUSY_PERMILLE: f64 = 950.0;
const STALLED_TIMES: u64 = 100;
const STALLED_NS: u64 = 10_000_000;
/// From this number on at least one value is above p99.99.
const FEW_ANSWERS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// This many answers of 50 us in a second.
    fn answers(count: u64) -> Latency {
        let mut latency = Latency {
            sent: count,
            elapsed_ns: 1_000_000_000,
            connections: 1,
            ..Latency::default()
        };
        (0..count).for_each(|_| latency.delays.record(50_000));
        latency
    }

    fn codes(latency: &Latency) -> Vec<&'static str> {
        latency
            .sentences(&TypedCommand::default())
            .iter()
            .map(|sentence| sentence.code)
            .collect()
    }

    #[test]
    fn good_figures_give_no_sentence() {
        assert!(codes(&answers(20_000)).is_empty());
        let mut on_time = answers(20_000);
        on_time.requested_rate = Some(20_000.0);
        on_time.lateness = Some(on_time.delays.clone());
        on_time.lateness.as_mut().unwrap().record(1);
        assert_eq!(codes(&on_time), ["tester-late"]);
        on_time.lateness = None;
        assert!(codes(&on_time).is_empty());
        assert!(codes(&Latency::default()).is_empty());
    }

    #[test]
    fn missed_rate_gives_its_reason() {
        let slow = |change: fn(&mut Latency)| {
            let mut slow = answers(10_000);
            slow.requested_rate = Some(50_000.0);
            slow.unsent = 40_000;
            change(&mut slow);
            let sentence = slow.sentences(&TypedCommand::default());
            assert_eq!(sentence[0].code, "rate-not-reached");
            sentence[0].text.clone()
        };
        let busy = Load {
            cpu_ns: 990_000_000,
            busiest_ns: 990_000_000,
        };
        assert!(slow(|_| ()).contains("10000 instead of 50000 a second"));
        assert!(slow(|_| ()).contains("the path or the other end"));
        assert!(slow(|slow| slow.connects = Some(Histogram::new())).contains("before the next is made"));
        let text = {
            let mut here = answers(10_000);
            (here.requested_rate, here.here) = (Some(50_000.0), busy);
            here.sentences(&TypedCommand::default()).remove(0).text
        };
        assert!(text.contains("the tester itself was the limit"), "{text}");
        let mut closed = answers(10_000);
        closed.here = busy;
        assert_eq!(codes(&closed), ["tester-limited"]);
        closed.spins = true;
        assert!(codes(&closed).is_empty());
    }

    #[test]
    fn stalls_losses_and_few_samples_are_reported() {
        let mut latency = answers(500);
        latency.delays.record(300_000_000);
        latency.lost = 2;
        latency.failed = 1;
        assert_eq!(
            codes(&latency),
            [
                "connections-failed",
                "unanswered",
                "stalls-counted-once",
                "few-requests"
            ]
        );
        latency.requested_rate = Some(500.0);
        assert!(!codes(&latency).contains(&"stalls-counted-once"));
    }

    #[test]
    fn merge_adds_runs() {
        let mut both = answers(10);
        both.there = Some(Load::default());
        both.merge(&answers(30));
        assert_eq!((both.delays.count(), both.elapsed_ns), (40, 2_000_000_000));
        assert_eq!(both.rate(), Some(20.0));
        assert_eq!(both.there, None);
    }
}
