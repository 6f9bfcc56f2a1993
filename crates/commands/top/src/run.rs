//! Waits for keys, samples, the terminal and signals, and hands each on.

use crate::args::TopArgs;
use crate::filter_names::FilterNames;
use crate::output::{self, Abilities};
use crate::sample::{Origin, Report, Sampling, clock};
use crate::screen::Screen;
use crate::state::key::Key;
use crate::state::view::View;
use crate::state::{Command, Mode, Plan, Request, State};
use crate::{script, tool};
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use sockeye_console::args::FormatArg;
use sockeye_console::usage::UsageError;
use sockeye_console::{live, locale, notes, stdout};
use sockeye_filter::join_words;
use sockeye_output::Style;
use sockeye_sys::interrupts::{Interrupts, end_by};
use std::sync::Arc;
use std::time::Duration;

/// Shows the live screen, or prints samples.
///
/// # Errors
/// If an option is wrong, there is no screen, or nothing could be read.
pub fn run(args: TopArgs) -> anyhow::Result<()> {
    let view = View::from(args.view);
    let plan = Plan {
        view,
        group_by: args.group_by,
        filter: join_words(&args.filter),
        order: view.order(),
        interval: args.watch,
        watched: None,
        playback: None,
    };
    if args.once || args.common.format != FormatArg::Table {
        return script::run(&args, &plan);
    }
    if !live::has_screen() {
        let text =
            "sockeye: top needs a terminal; --once prints one sample, --format jsonl one after the other\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let args = Arc::new(args);
    // A filter that is wrong from the start is an error of usage, before the screen is taken.
    let context = crate::sample::context(&args, &plan)?;
    sockeye_query::listing::Listing::new(&args.common, &crate::sample::words(&plan), None, &context)?;
    drop(context);
    show(args, plan, Origin::Host)
}

/// Takes the screen, until a key or a signal ends it.
pub(crate) fn show(args: Arc<TopArgs>, plan: Plan, origin: Origin) -> anyhow::Result<()> {
    notes::collect(true);
    let ended = Top::begin(args, plan, origin).and_then(Top::run);
    notes::collect(false);
    if let Some(signal) = ended? {
        end_by(signal).context("end by the signal that arrived")?;
    }
    Ok(())
}

/// The running program.
struct Top {
    /// Before all others, so that it is the first to be dropped.
    screen: Screen,
    args: Arc<TopArgs>,
    state: State,
    abilities: Abilities,
    filter_names: FilterNames,
    sampling: Sampling,
    planned: Plan,
    interrupts: Interrupts,
    capture: Option<tool::Capture>,
    /// File of the last capture that has ended.
    captured: Option<String>,
}

/// Whether to go on.
enum Next {
    GoOn,
    End(Option<Signal>),
}

impl Top {
    fn begin(args: Arc<TopArgs>, plan: Plan, origin: Origin) -> anyhow::Result<Self> {
        let interrupts = Interrupts::catch().context(live::BEGINNING)?;
        interrupts.notice_resizes().context("handle SIGWINCH")?;
        let is_recorded = matches!(origin, Origin::Store(_));
        let sampling = Sampling::begin(Arc::clone(&args), plan.clone(), origin).context("start to sample")?;
        Ok(Self {
            state: State::new(&plan),
            filter_names: FilterNames::new(&args, is_recorded),
            abilities: Abilities {
                has_color: stdout::style(args.common.color) == Style::Color,
                is_utf8: locale::has_unicode(),
            },
            args,
            sampling,
            planned: plan,
            interrupts,
            capture: None,
            captured: None,
            screen: Screen::begin().context("set the modes of the terminal")?,
        })
    }

    /// Runs until a key or a signal ends it; returns the signal.
    fn run(mut self) -> anyhow::Result<Option<Signal>> {
        loop {
            let size = stdout::size();
            let known = |of: fn(&stdout::Size) -> Option<usize>, default: u16| {
                size.as_ref()
                    .and_then(of)
                    .and_then(|size| u16::try_from(size).ok())
                    .unwrap_or(default)
            };
            let size = (known(|size| size.columns, 80), known(|size| size.rows, 24));
            if size != self.state.size {
                self.state.resize(size.0, size.1);
            }
            if let Some(capture) = self.capture.take_if(tool::Capture::has_ended) {
                self.end_capture(capture);
            }
            if self.screen.is_ready() {
                let frame = output::draw(&self.state, self.abilities);
                self.screen.draw(frame).context(stdout::WRITING)?;
            }
            if let Next::End(signal) = self.wait()? {
                let capture = self.capture.take();
                // The terminal first: a capture may have much to write.
                drop(self);
                notes::collect(false);
                if let Some(capture) = capture {
                    notes::say(&format!("sockeye: top: {}\n", capture.end()));
                }
                return Ok(signal);
            }
            let plan = self.state.plan();
            if plan != self.planned {
                self.sampling.plan(plan.clone());
                self.planned = plan;
            }
        }
    }

    /// Waits for the next thing to happen.
    fn wait(&mut self) -> anyhow::Result<Next> {
        let out = if self.screen.is_ready() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        let timeout = if self.screen.is_within_key() {
            ESCAPE_DELAY
        } else {
            SIZE_INTERVAL
        };
        let keyboard = self.screen.keyboard();
        let mut polled = [
            PollFd::new(&keyboard, PollFlags::IN),
            PollFd::new(&self.sampling.ready, PollFlags::IN),
            PollFd::new(&self.interrupts, PollFlags::IN),
            PollFd::new(&self.screen, out),
        ];
        let found = poll(&mut polled, Timespec::try_from(timeout).ok().as_ref());
        let [keys, samples, signals, terminal] = polled.map(|one| one.revents());
        match found {
            // Another size.
            Err(Errno::INTR) => return Ok(Next::GoOn),
            Err(errno) => return Err(std::io::Error::from(errno).into()),
            Ok(0) => {
                let late = self.screen.late_keys();
                return Ok(self.press(late));
            }
            Ok(_) => {}
        }
        if !signals.is_empty() {
            return Ok(Next::End(
                self.interrupts.caught().and_then(Signal::from_named_raw),
            ));
        }
        if terminal.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(Next::End(None));
        }
        if terminal.contains(PollFlags::OUT) {
            self.screen.flush().context(stdout::WRITING)?;
        }
        if !samples.is_empty() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.sampling.ready, &mut count);
            self.take_reports();
        }
        if !keys.is_empty() {
            return match self.screen.read_keys() {
                Ok(keys) => Ok(self.press(keys)),
                // The terminal is gone.
                Err(_) => Ok(Next::End(None)),
            };
        }
        Ok(Next::GoOn)
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.sampling.reports.try_recv() {
            match report {
                Report::Sample(sample) => self.state.add(*sample),
                Report::Failed(reason) => self.state.fail(&reason),
                Report::Done(outcome) => {
                    self.state.commands -= 1;
                    match outcome {
                        tool::Outcome::Message(message) => self.state.message = Some(message),
                        tool::Outcome::Text(text) => self.state.show_text(text),
                    }
                }
            }
        }
    }

    fn press(&mut self, keys: Vec<Key>) -> Next {
        for key in keys {
            if key == Key::Control('z') {
                self.stop();
                continue;
            }
            let request = if let Key::Click(column, row) = key {
                if let Some(target) = output::target_at(&self.state, column, row) {
                    self.state.click(target);
                }
                Request::Nothing
            } else {
                self.state.press(key, &self.filter_names)
            };
            if !matches!(self.state.mode, Mode::Filter(_)) {
                self.filter_names.forget();
            }
            match request {
                Request::Nothing => {}
                Request::End => return Next::End(None),
                Request::Run(command) => self.start(command),
            }
        }
        Next::GoOn
    }

    /// Leaves the screen to the shell, until it continues us.
    fn stop(&mut self) {
        self.screen.leave();
        let _ = kill_process(getpid(), Signal::TSTP);
        if self.screen.enter().is_err() {
            self.state.message = Some("the terminal's modes could not be set".to_owned());
        }
    }

    /// Starts a command; its result comes as a report.
    fn start(&mut self, command: Command) {
        if let Command::Capture(socket, filter) = &command {
            if let Some(capture) = self.capture.take() {
                self.end_capture(capture);
                return;
            }
            self.state.message = Some(
                match tool::Capture::begin(&self.args, *socket, filter, &clock()) {
                    Ok(capture) => {
                        self.state.capture = Some(*socket);
                        let message = format!("capturing into {}; c ends it", capture.file);
                        self.capture = Some(capture);
                        message
                    }
                    Err(error) => format!("capture: {error}"),
                },
            );
            return;
        }
        // A key that is held asks many times a second.
        if self.state.commands > 0 {
            self.state.message = Some("the command before is not done yet".to_owned());
            return;
        }
        let (args, captured, out) = (
            Arc::clone(&self.args),
            self.captured.clone(),
            self.sampling.out.clone(),
        );
        self.spawn(move || {
            out.send(Report::Done(tool::run(&args, &command, captured.as_deref())));
        });
    }

    /// Ends a capture, which may have much to write; what it says comes as a report.
    fn end_capture(&mut self, mut capture: tool::Capture) {
        // Not in the thread, which ends with the program.
        capture.interrupt();
        self.state.capture = None;
        self.state.message = Some(format!("{}: the capture ends", capture.file));
        let out = self.sampling.out.clone();
        // One that could not begin has no file.
        let hint = if tool::is_there(&capture.file) {
            self.captured = Some(capture.file.clone());
            "; g draws it"
        } else {
            ""
        };
        self.spawn(move || {
            let message = format!("{}{hint}", capture.end());
            out.send(Report::Done(tool::Outcome::Message(message)));
        });
    }

    /// Starts a thread that reports once that it is done.
    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) {
        let started = std::thread::Builder::new().name("command".to_owned()).spawn(work);
        match started {
            Ok(_) => self.state.commands += 1,
            Err(error) => self.state.message = Some(format!("start a thread: {error}")),
        }
    }
}

/// How long an escape waits for the rest of a sequence: a slow line takes its time.
const ESCAPE_DELAY: Duration = Duration::from_millis(50);
/// Longest time until a new size of the terminal is noticed: a SIGWINCH before poll() does not end it.
const SIZE_INTERVAL: Duration = Duration::from_secs(1);
