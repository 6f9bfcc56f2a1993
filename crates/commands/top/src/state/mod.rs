//! What the screen shows, and what keys do to it: keys and samples in, a model and requests out. No terminal, no clock, no file.

pub(crate) mod details;
pub(crate) mod filter_line;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod history;
pub(crate) mod key;
pub(crate) mod playback;
mod press;
pub(crate) mod sample;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod text;
pub(crate) mod view;

use filter_line::FilterLine;
use history::History;
use playback::Playback;
use sample::{Details, Sample};
use sockeye_model::GroupBy;
use std::time::Duration;
use table::{Order, Row, SocketId};
use view::{GROUPS, View};

/// The model of the screen.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) view: View,
    pub(crate) mode: Mode,
    pub(crate) history: History,
    /// The filter; empty: none.
    pub(crate) filter: String,
    /// The interval that was asked for.
    pub(crate) interval: Duration,
    /// Number of the sample at which the screen stands still; `None`: it follows.
    pub(crate) still_at: Option<u64>,
    /// How recorded time is played; `None`: samples are of now.
    pub(crate) playback: Option<Playback>,
    /// The result of the last command.
    pub(crate) message: Option<String>,
    /// Why the last sample failed: lines that are harmless for a terminal.
    pub(crate) failure: Option<String>,
    /// A capture that runs.
    pub(crate) capture: Option<SocketId>,
    /// Commands that run, captures aside.
    pub(crate) commands: usize,
    /// Line of the details at which the screen begins; it may be behind the last one that it can be.
    pub(crate) details_first: usize,
    /// Columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    group: usize,
    orders: [Order; View::ALL.len()],
    cursors: [Cursor; View::ALL.len()],
}

/// What the screen is for at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A table.
    Table,
    /// A table, and a filter that is being typed.
    Filter(FilterLine),
    /// One connection.
    Details(SocketId),
    /// A question whether to do something.
    Confirm(Command),
    /// A text to read, from a line on.
    Text(String, usize),
}

/// A command of `sockeye` that a key starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Kill(SocketId, String),
    Keepalive(SocketId, String),
    /// Begins to capture a connection, which a filter selects, or ends that.
    Capture(SocketId, String),
    /// Draws the last capture.
    Graph,
    Explain(String),
}

/// What the program has to do after a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Nothing,
    End,
    Run(Command),
}

/// What can be clicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    View(View),
    /// A column, by its name.
    Heading(&'static str),
    /// A row, by its place in the order.
    Row(usize),
}

/// What to sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) view: View,
    pub(crate) group_by: GroupBy,
    pub(crate) filter: String,
    pub(crate) order: Order,
    pub(crate) interval: Duration,
    /// The connection of which details are needed.
    pub(crate) watched: Option<SocketId>,
    /// How recorded time is played; `None`: samples are of now.
    pub(crate) playback: Option<Playback>,
}

/// The selected row of a view.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    /// Its id: the cursor follows it.
    id: Option<u64>,
    /// Its place in the order.
    index: usize,
    /// Place of the first row on the screen.
    first: usize,
}

impl State {
    /// Begins with a view.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut orders = View::ALL.map(View::order);
        orders[plan.view.index()] = plan.order;
        Self {
            view: plan.view,
            mode: Mode::Table,
            history: History::default(),
            filter: plan.filter.clone(),
            interval: plan.interval,
            still_at: None,
            playback: plan.playback,
            message: None,
            failure: None,
            capture: None,
            commands: 0,
            details_first: 0,
            size: (80, 24),
            group: GROUPS
                .iter()
                .position(|group| *group == plan.group_by)
                .unwrap_or(0),
            orders,
            cursors: Default::default(),
        }
    }

    /// Returns what to sample.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            view: self.view,
            group_by: self.group_by(),
            filter: self.filter.clone(),
            order: self.order(),
            interval: self.interval,
            watched: match self.mode {
                Mode::Details(socket) => Some(socket),
                _ => None,
            },
            playback: self.playback,
        }
    }

    /// Returns by what the view of groups folds.
    pub(crate) const fn group_by(&self) -> GroupBy {
        GROUPS[self.group]
    }

    /// Returns the order of the view.
    pub(crate) const fn order(&self) -> Order {
        self.orders[self.view.index()]
    }

    /// Returns the sample that is shown; `None` until the first one of the view with its filter: rows of another one are not shown
    /// in their place.
    pub(crate) fn shown(&self) -> Option<&Sample> {
        match self.still_at {
            Some(number) => self.history.at(self.view, number),
            None => self.history.current(self.view, &self.filter, self.group_by()),
        }
    }

    /// Returns the rows that are shown, in their order.
    pub(crate) fn rows(&self) -> Vec<&Row> {
        let order = self.order();
        self.shown()
            .map(|sample| sample.table.sorted(order))
            .unwrap_or_default()
    }

    /// Returns the selected row.
    pub(crate) fn selected(&self) -> Option<&Row> {
        self.rows().get(self.cursor().index).copied()
    }

    /// Returns the row that keys act on: that of the connection whose details are shown, or the selected one.
    pub(crate) fn subject(&self) -> Option<&Row> {
        match self.mode {
            Mode::Details(socket) => self.rows().into_iter().find(|row| row.socket == Some(socket)),
            _ => self.selected(),
        }
    }

    /// Returns the details of a socket, up to the sample that is shown.
    pub(crate) fn details_of(&self, socket: SocketId) -> Vec<&Details> {
        let until = self.shown().map_or(0, |sample| sample.number);
        self.history
            .of(self.view)
            .filter(|other| other.number <= until)
            .filter_map(|other| other.details.as_deref())
            .filter(|details| details.socket == socket)
            .collect()
    }

    /// Whether the sample that is shown has the details of a socket.
    pub(crate) fn has_details(&self, socket: SocketId) -> bool {
        let details = self.shown().and_then(|sample| sample.details.as_ref());
        details.is_some_and(|details| details.socket == socket)
    }

    /// Returns the places of the first and of the selected row.
    pub(crate) const fn place(&self) -> (usize, usize) {
        let cursor = self.cursor();
        (cursor.first, cursor.index)
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, sample: Sample) {
        self.failure = None;
        self.history.push(sample, self.still_at);
        self.follow();
    }

    /// Says why there is no sample. Of a filter, the place of its error is in the second and third line.
    pub(crate) fn fail(&mut self, reason: &str) {
        let reason = reason.strip_prefix("sockeye: ").unwrap_or(reason);
        let lines = reason
            .lines()
            .map(|line| sockeye_output::harmless(line.as_bytes()));
        self.failure = Some(lines.collect::<Vec<_>>().join("\n"));
    }

    /// Shows the text of a command, unless something is typed or asked meanwhile.
    pub(crate) fn show_text(&mut self, text: String) {
        match self.mode {
            Mode::Filter(_) | Mode::Confirm(_) => {
                self.message = Some("the text has come: press the key again to read it".to_owned());
            }
            Mode::Table | Mode::Details(_) | Mode::Text(..) => self.mode = Mode::Text(text, 0),
        }
    }

    /// Sets the size of the terminal.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.size = (columns, rows);
        self.follow();
    }

    /// Returns the number of rows of a table that fit.
    pub(crate) fn page(&self) -> usize {
        usize::from(self.size.1).saturating_sub(CHROME_LINES).max(1)
    }

    const fn cursor(&self) -> &Cursor {
        &self.cursors[self.view.index()]
    }

    /// Moves the cursor to the row that it is on, wherever that is now, and the screen to the cursor.
    fn follow(&mut self) {
        let ids: Vec<u64> = self.rows().iter().map(|row| row.id).collect();
        let page = self.page();
        let cursor = &mut self.cursors[self.view.index()];
        let found = cursor.id.and_then(|id| ids.iter().position(|other| *other == id));
        cursor.index = found.unwrap_or(cursor.index).min(ids.len().saturating_sub(1));
        cursor.first = cursor
            .first
            .min(cursor.index)
            .max((cursor.index + 1).saturating_sub(page));
        cursor.first = cursor.first.min(ids.len().saturating_sub(page));
    }

    /// Moves the cursor to a place.
    fn select(&mut self, index: usize) {
        let ids: Vec<u64> = self.rows().iter().map(|row| row.id).collect();
        let index = index.min(ids.len().saturating_sub(1));
        // The first row is not followed: new ones that come before it are seen.
        let id = ids.get(index).copied().filter(|_| index > 0);
        let cursor = &mut self.cursors[self.view.index()];
        (cursor.index, cursor.id) = (index, id);
        self.follow();
    }
}

/// Lines that are not rows: title, views, headings, sums, keys.
pub(crate) const CHROME_LINES: usize = 5;
