//! Reads samples, and sends each interval that is complete.

use super::args::ClickhouseArgs;
use super::cursor::CursorFile;
use super::shipper::{Connections, Shipper, backoff, note_failure};
use anyhow::{Context, bail};
use sockeye_clickhouse::Server;
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_fleet::question::{self, TranslatedFlow};
use sockeye_fleet::{
    ExchangeRow, GapRow, Origin, RowReader, SCHEMA_VERSION, SampleHead, SampleMark, SchemaOptions, Slice,
    SliceBuilder, SliceOptions, TranslatedFlows, TranslationRow,
};
use sockeye_http::Target;
use sockeye_query::past;
use sockeye_store::{FollowedSample, Resumed, StoreFollower};
use std::thread;
use std::time::Duration;

/// Sends until it is ended.
pub(crate) fn run(args: &ClickhouseArgs) -> anyhow::Result<()> {
    let target =
        Target::parse(&args.server.url).map_err(|error| UsageError(format!("sockeye: --url: {error}\n")))?;
    let password = args.server.password()?;
    let tls = args.server.tls.client(&target)?;
    let server = Server::new(
        target,
        tls,
        &args.server.database,
        &args.server.user,
        password.as_deref(),
    )
    .map_err(|error| UsageError(format!("sockeye: {error}\n")))?;
    let path = past::readable_store(args.store.as_deref())?;
    let mut follower = StoreFollower::open(&path)?;
    let cursor = CursorFile::of(args.cursor.as_deref(), &path);
    let _lock = cursor.lock()?;
    let sent = cursor.read()?;
    check_schema(&server, args.once)?;
    if !args.once {
        say(&format!(
            "sockeye: {} goes to {}, database {}\n",
            path.display(),
            server.target(),
            server.database()
        ));
    }
    let mut export = Export::begin(&mut follower, args, sent)?;
    let mut shipper = Shipper::new(&server, args.once);
    let begin_ms = sent.map_or_else(|| envelope::now().time_us / 1_000, |sent| sent.at_ms);
    export.ask_for_translated(&shipper, begin_ms);
    loop {
        let Some(sample) = follower.next_sample()? else {
            if let Some(slice) = export.builder.end_at(envelope::now().time_us / 1_000) {
                export.send(&mut shipper, &follower, &cursor, &slice)?;
            }
            if args.once {
                return Ok(());
            }
            thread::sleep(POLL);
            continue;
        };
        let head = head(sample);
        if let Some(slice) = export.builder.end_before(&head) {
            export.send(&mut shipper, &follower, &cursor, &slice)?;
        }
        export.add(&head, &follower);
    }
}

/// What is read and not sent.
struct Export {
    builder: SliceBuilder,
    /// The last sample that was sent.
    sent: Option<SampleMark>,
    /// Begin of the interval whose first samples are gone: the rest of it has another token than the whole had.
    skipped_start_s: Option<u32>,
    skips: bool,
    /// What was deleted before it was sent.
    lost: Option<GapRow>,
    /// Whether it was said that what NAT translates is not known.
    has_noted: bool,
}

impl Export {
    /// Goes to where the last process ended.
    fn begin(
        follower: &mut StoreFollower,
        args: &ClickhouseArgs,
        sent: Option<SampleMark>,
    ) -> anyhow::Result<Self> {
        let mut export = Self {
            builder: SliceBuilder::new(SliceOptions {
                length_s: args.send_interval,
                flows_max: args.flows as usize,
            }),
            sent,
            skipped_start_s: None,
            skips: false,
            lost: None,
            has_noted: false,
        };
        let resumed = match sent {
            Some(sent) => follower.resume(sent.id, sent.at_ms)?,
            None => Resumed::Other,
        };
        match resumed {
            Resumed::After => {
                let sockets: Vec<_> = follower.sockets().sockets().collect();
                export.builder.resume(sockets.into_iter());
            }
            Resumed::Lost(oldest_ms) => {
                let from_ms = sent.map_or(oldest_ms, |sent| sent.at_ms);
                say(&format!(
                    "sockeye: samples of {} s were deleted before they were sent: the recorder may keep more (--max-size)\n",
                    oldest_ms.saturating_sub(from_ms) / 1_000
                ));
                export.lost = Some(GapRow {
                    from_ms,
                    to_ms: oldest_ms,
                    reason: GapRow::NOT_SENT,
                });
                export.skips = true;
            }
            Resumed::Other => {
                export.sent = None;
                export.skips = follower.lacks_begin()?;
            }
        }
        Ok(export)
    }

    fn add(&mut self, head: &SampleHead, follower: &StoreFollower) {
        let sockets: Vec<_> = follower.sockets().sockets().collect();
        if self.skips {
            let start_s = self.builder.start_of(head.at_ms);
            if *self.skipped_start_s.get_or_insert(start_s) == start_s {
                self.builder.resume(sockets.into_iter());
                self.builder.note_gap();
                return;
            }
            self.skips = false;
        }
        let separates = head
            .gap
            .as_ref()
            .is_some_and(|gap| gap.separates(head.origin.interval_ms));
        self.builder.add(head, separates, sockets.into_iter());
    }

    /// Asks the server for the flows that NAT translates at about a time. Without an answer those before stay.
    fn ask_for_translated(&mut self, shipper: &Shipper<'_>, at_ms: u64) {
        match translated_flows(shipper.server(), at_ms) {
            Ok(flows) => self.builder.set_translated(flows),
            Err(error) if !self.has_noted => {
                self.has_noted = true;
                say(&format!(
                    "sockeye: what NAT translates is not known: {error:#}; such flows are seen from one side\n"
                ));
            }
            Err(_) => {}
        }
    }

    fn send(
        &mut self,
        shipper: &mut Shipper<'_>,
        follower: &StoreFollower,
        cursor: &CursorFile,
        slice: &Slice,
    ) -> anyhow::Result<()> {
        let before_ms = self.sent.map_or(slice.first.at_ms, |sent| sent.at_ms);
        let findings_from_ms = before_ms.saturating_sub(FINDINGS_BACK_MS);
        let findings = follower.findings((findings_from_ms, slice.last.at_ms))?;
        let minute = |at_ms: u64| at_ms / 60_000 * 60;
        let counts = follower.counts((minute(before_ms), minute(slice.last.at_ms)))?;
        // Those of the first sample, too, if nothing was sent before.
        let after_ms = self.sent.map_or(before_ms.saturating_sub(1), |sent| sent.at_ms);
        let connections = Connections {
            translations: follower
                .translations((after_ms, slice.last.at_ms))?
                .into_iter()
                .map(|(at_ms, seen)| TranslationRow { at_ms, seen })
                .collect(),
            exchanges: follower
                .exchanges((after_ms, slice.last.at_ms))?
                .into_iter()
                .map(|(at_ms, exchange)| ExchangeRow { at_ms, exchange })
                .collect(),
        };
        shipper.send(slice, &findings, counts, self.lost.take(), &connections)?;
        self.ask_for_translated(shipper, slice.last.at_ms);
        cursor.write(slice.last)?;
        self.sent = Some(slice.last);
        Ok(())
    }
}

/// Returns the flows that NAT translated at about a time.
fn translated_flows(server: &Server, at_ms: u64) -> anyhow::Result<TranslatedFlows> {
    let question = question::translated_flows(at_ms / 1_000);
    let answer = server.query(&question.sql, &question.parameters)?;
    let flows: Vec<TranslatedFlow> = question::read_rows(&answer)?;
    let flows = flows.into_iter();
    Ok(flows.map(|flow| (flow.client, flow.server, flow.port)).collect())
}

fn head(sample: FollowedSample) -> SampleHead {
    SampleHead {
        id: sample.id,
        at_ms: sample.at_ms,
        boottime_ms: sample.boottime_ms,
        sockets: sample.sockets,
        losses: sample.losses,
        origin: Origin {
            host: sample.host.unwrap_or_default(),
            boot_id: sample.boot_id.unwrap_or_default(),
            version: sample.version,
            interval_ms: sample.interval_ms,
        },
        gap: sample.gap,
    }
}

/// Waits until the server answers, and has the tables. What it refuses at first it refuses later, too.
fn check_schema(server: &Server, is_once: bool) -> anyhow::Result<()> {
    let options = SchemaOptions {
        database: server.database().to_owned(),
        cluster: None,
        hosts: 0,
    };
    let mut failed = 0;
    loop {
        match server.query(&options.version_query(), &[]) {
            Ok(answer) => {
                let version = RowReader::new(&answer).u32()?;
                if version < SCHEMA_VERSION {
                    bail!(
                        "the tables have version {version}, and this sockeye needs {SCHEMA_VERSION}: `sockeye fleet schema --apply` upgrades them"
                    );
                }
                return Ok(());
            }
            Err(error) if error.is_missing() => {
                bail!("{error}: `sockeye fleet schema --apply` creates the tables")
            }
            Err(error) if is_once || error.is_refusal() => {
                return Err(anyhow::Error::from(error)).context(server.target().to_string());
            }
            Err(error) => {
                if failed == 0 {
                    note_failure(server, &error);
                }
                thread::sleep(backoff(failed));
                failed += 1;
            }
        }
    }
}

/// How long findings are sent after they have ended: one that a gap cut off may have been seen so long before it.
const FINDINGS_BACK_MS: u64 = 600_000;

/// How long to wait for a sample.
const POLL: Duration = Duration::from_secs(1);
