//! Sends one interval, until the server has all of it.

use anyhow::Context;
use sockeye_clickhouse::{Server, ServerError};
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_fleet::{
    CountRow, ExchangeRow, FlowRow, GapRow, HostRow, ListenerRow, Slice, Table, TranslationRow, encode,
    insert_statement, token,
};
use sockeye_history::{FindingRecord, Period};
use sockeye_store::CountedMinute;
use std::thread;
use std::time::Duration;

/// What is sent of single connections.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) translations: Vec<TranslationRow>,
    pub(super) exchanges: Vec<ExchangeRow>,
}

/// Sends to a server.
pub(super) struct Shipper<'a> {
    server: &'a Server,
    /// Whether the first failure is the last.
    is_once: bool,
    /// Whether it was said what the server lacks.
    has_noted: bool,
}

impl<'a> Shipper<'a> {
    pub(super) const fn new(server: &'a Server, is_once: bool) -> Self {
        Self {
            server,
            is_once,
            has_noted: false,
        }
    }

    /// Returns the server.
    pub(super) const fn server(&self) -> &Server {
        self.server
    }

    /// Sends all rows of an interval. The row of the host comes last: where it is, all others are.
    pub(super) fn send(
        &mut self,
        slice: &Slice,
        findings: &[Period<FindingRecord>],
        counts: Vec<CountedMinute>,
        lost: Option<GapRow>,
        connections: &Connections,
    ) -> anyhow::Result<()> {
        self.insert::<TranslationRow>(slice, &|| encode(slice, &connections.translations))?;
        self.insert::<ExchangeRow>(slice, &|| encode(slice, &connections.exchanges))?;
        self.insert::<FlowRow>(slice, &|| encode(slice, &slice.flows))?;
        self.insert::<ListenerRow>(slice, &|| encode(slice, &slice.listeners))?;
        self.insert::<Period<FindingRecord>>(slice, &|| encode(slice, findings))?;
        let counts: Vec<_> = counts.into_iter().map(count_row).collect();
        self.insert::<CountRow>(slice, &|| encode(slice, &counts))?;
        let gaps: Vec<_> = slice.gaps.iter().map(GapRow::from).chain(lost).collect();
        self.insert::<GapRow>(slice, &|| encode(slice, &gaps))?;
        self.insert::<HostRow>(slice, &|| {
            let sent_ms = envelope::now().time_us / 1_000;
            encode(slice, [&HostRow { sent_ms }])
        })
    }

    /// Inserts rows, however long it takes. `rows` is asked before each attempt.
    fn insert<R: Table>(&mut self, slice: &Slice, rows: &dyn Fn() -> Vec<u8>) -> anyhow::Result<()> {
        let (statement, token) = (insert_statement::<R>(), token::<R>(slice));
        let mut failed = 0;
        loop {
            let rows = rows();
            if rows.is_empty() {
                return Ok(());
            }
            let error = match self.server.insert(&statement, &token, &rows) {
                Ok(()) => {
                    if !self.has_noted && !self.server.has_tokens() {
                        self.has_noted = true;
                        say(&format!(
                            "sockeye: {}: this server knows no deduplication tokens (ClickHouse has them since 22.2): rows whose insert gets no answer may be there twice\n",
                            self.server.target()
                        ));
                    }
                    if failed > 0 {
                        say(&format!(
                            "sockeye: {}: rows are taken again\n",
                            self.server.target()
                        ));
                    }
                    return Ok(());
                }
                Err(error) => error,
            };
            if self.is_once || matches!(error, ServerError::Local(_)) {
                return Err(anyhow::Error::from(error)).context(self.server.target().to_string());
            }
            if failed == 0 {
                note_failure(self.server, &error);
            }
            thread::sleep(backoff(failed));
            failed += 1;
        }
    }
}

fn count_row(counted: CountedMinute) -> CountRow {
    CountRow {
        start_s: counted.start_s,
        key: counted.key,
        count: counted.count,
    }
}

/// Says that the server does not answer as it should.
pub(super) fn note_failure(server: &Server, error: &ServerError) {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = format!("{text}: {source}");
    }
    say(&format!(
        "sockeye: {}: {text}; trying again, the recorder keeps what was not sent\n",
        server.target()
    ));
}

/// Returns how long to wait after this many failures in a row: a second, doubled each time, at most a minute.
pub(super) fn backoff(failed: u32) -> Duration {
    Duration::from_secs(1 << failed.min(6)).min(Duration::from_mins(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute() {
        let seconds: Vec<_> = [0, 1, 2, 5, 6, 99]
            .into_iter()
            .map(|failed| backoff(failed).as_secs())
            .collect();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }
}
