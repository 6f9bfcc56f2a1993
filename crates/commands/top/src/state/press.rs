//! What each key does.

use super::filter_line::FilterLine;
use super::key::Key;
use super::playback::Pressed;
use super::table::Row;
use super::view::{GROUPS, View};
use super::{Command, Mode, Request, State, Target, details, text};
use sockeye_filter::Resolve;
use std::time::Duration;

impl State {
    /// Changes the model as a key says, and returns what else is to be done. `names` are those that a filter may have.
    pub(crate) fn press(&mut self, key: Key, names: &dyn Resolve) -> Request {
        if key == Key::Control('c') {
            return Request::End;
        }
        self.message = None;
        if let (Some(playback), Mode::Table | Mode::Details(_)) = (&mut self.playback, &self.mode) {
            match playback.press(key) {
                Pressed::Done => return Request::Nothing,
                Pressed::Refused => {
                    self.message =
                        Some("this was recorded: nothing of it can be changed or captured".to_owned());
                    return Request::Nothing;
                }
                Pressed::Other => {}
            }
        }
        match self.mode.clone() {
            Mode::Table => self.press_in_table(key, names),
            Mode::Details(_) => self.press_in_details(key),
            Mode::Filter(line) => self.press_in_filter(line, key, names),
            Mode::Confirm(command) => {
                self.mode = Mode::Table;
                match key {
                    Key::Char('y' | 'Y') => return Request::Run(command),
                    _ => self.message = Some("nothing was changed".to_owned()),
                }
                Request::Nothing
            }
            Mode::Text(text, first) => {
                let last = text::lines(&text, self.size.0).len().saturating_sub(1);
                let first = match key {
                    Key::Up | Key::WheelUp => first.saturating_sub(1),
                    Key::Down | Key::WheelDown => first + 1,
                    Key::PageUp => first.saturating_sub(self.page()),
                    Key::PageDown | Key::Char(' ') => first + self.page(),
                    Key::Char('q') | Key::Escape | Key::Char('?') | Key::Enter => {
                        self.mode = Mode::Table;
                        return Request::Nothing;
                    }
                    _ => first,
                };
                self.mode = Mode::Text(text, first.min(last));
                Request::Nothing
            }
        }
    }

    fn press_in_table(&mut self, key: Key, names: &dyn Resolve) -> Request {
        let index = self.cursor().index;
        match key {
            Key::Char('q' | 'Q') => return Request::End,
            Key::Char(digit @ '1'..='9') => {
                if let Some(view) = View::of_digit(digit) {
                    self.show(view);
                }
            }
            Key::Tab => self.show(self.view.neighbour(true)),
            Key::BackTab => self.show(self.view.neighbour(false)),
            Key::Up => self.select(index.saturating_sub(1)),
            Key::Down => self.select(index + 1),
            Key::WheelUp => self.select(index.saturating_sub(WHEEL_ROWS)),
            Key::WheelDown => self.select(index + WHEEL_ROWS),
            Key::PageUp => self.select(index.saturating_sub(self.page())),
            Key::PageDown => self.select(index + self.page()),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
            Key::Char('<') => self.sort_by_neighbour(false),
            Key::Char('>') => self.sort_by_neighbour(true),
            Key::Char('r') => self.reverse(),
            Key::Char('o') => {
                self.group = (self.group + 1) % GROUPS.len();
                self.show(View::Groups);
            }
            Key::Char('/') => self.mode = Mode::Filter(FilterLine::new(&self.filter, names)),
            Key::Escape if self.still_at.is_some() => self.still_at = None,
            Key::Escape => self.set_filter(String::new()),
            Key::Enter => self.enter(),
            key => return self.press_anywhere(key),
        }
        Request::Nothing
    }

    fn press_in_details(&mut self, key: Key) -> Request {
        match key {
            Key::Escape | Key::Enter | Key::Char('q' | 'Q') | Key::Backspace => self.mode = Mode::Table,
            Key::Up | Key::WheelUp => self.scroll_details(|first, _| first.saturating_sub(1)),
            Key::Down | Key::WheelDown => self.scroll_details(|first, _| first + 1),
            Key::PageUp => self.scroll_details(usize::saturating_sub),
            Key::PageDown => self.scroll_details(|first, page| first + page),
            Key::Home => self.details_first = 0,
            Key::End => self.scroll_details(|_, _| usize::MAX),
            key => return self.press_anywhere(key),
        }
        Request::Nothing
    }

    /// Moves the details, not beyond their last line.
    fn scroll_details(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let Mode::Details(socket) = self.mode else { return };
        let page = usize::from(self.size.1).saturating_sub(DETAILS_CHROME).max(1);
        let of_socket = self.details_of(socket).last().copied();
        let count = of_socket.map_or(0, |last| {
            details::lines(last, self.has_details(socket), self.size.0, '~').len()
        });
        self.details_first = to(self.details_first, page).min(count.saturating_sub(page));
    }

    /// Keys that mean the same in a table and in the details of a row.
    fn press_anywhere(&mut self, key: Key) -> Request {
        match key {
            Key::Char('p' | ' ') => {
                self.still_at = match self.still_at {
                    Some(_) => None,
                    None => self.shown().map(|sample| sample.number),
                };
                self.follow();
            }
            Key::Left => self.step(false),
            Key::Right => self.step(true),
            Key::Char('+') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            Key::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            Key::Char('!') => {
                let notes = self.shown().map(|sample| sample.notes.to_string());
                match notes.filter(|notes| !notes.is_empty()) {
                    Some(notes) => self.mode = Mode::Text(notes, 0),
                    None => self.message = Some("nothing was lost".to_owned()),
                }
            }
            Key::Char('?' | 'h') => {
                let help = if self.playback.is_some() {
                    HELP_REPLAY
                } else {
                    HELP
                };
                self.mode = Mode::Text(help.to_owned(), 0);
            }
            Key::Char('k') => self.ask(Command::Kill),
            Key::Char('K') => match self.subject().and_then(|row| row.no_keepalive) {
                Some(reason) => self.message = Some(reason.to_owned()),
                None => self.ask(Command::Keepalive),
            },
            Key::Char('c') => {
                if let Some(socket) = self.capture {
                    return Request::Run(Command::Capture(socket, String::new()));
                }
                let target = self.subject().and_then(|row| row.socket.zip(row.capture.clone()));
                match target {
                    Some((socket, filter)) => return Request::Run(Command::Capture(socket, filter.into())),
                    None => self.message = Some(self.without_subject("c captures one connection: ")),
                }
            }
            Key::Char('g') => return Request::Run(Command::Graph),
            Key::Char('e') => {
                let words = self.subject().map(explained);
                match words.filter(|words| !words.is_empty()) {
                    Some(words) => return Request::Run(Command::Explain(words)),
                    None => self.message = Some(NOT_EXPLAINED.to_owned()),
                }
            }
            _ => {}
        }
        Request::Nothing
    }

    fn press_in_filter(&mut self, mut line: FilterLine, key: Key, names: &dyn Resolve) -> Request {
        match key {
            Key::Escape => self.mode = Mode::Table,
            Key::Enter if line.error.is_none() => {
                self.set_filter(line.text.trim().to_owned());
                self.mode = Mode::Table;
                self.still_at = None;
            }
            key => {
                line.press(key, names);
                self.mode = Mode::Filter(line);
            }
        }
        Request::Nothing
    }

    /// Says that a key has no connection to act on.
    fn without_subject(&self, act: &str) -> String {
        match self.mode {
            Mode::Details(_) => "this connection is not listed any more".to_owned(),
            _ if self.view == View::Sockets && self.selected().is_some() => {
                format!("{act}this socket is none that can be acted on")
            }
            _ => format!("{act}select one in 2 sockets"),
        }
    }

    /// Asks whether to do something to the selected socket, or to that whose details are shown.
    fn ask(&mut self, command: fn(super::SocketId, String) -> Command) {
        let target = self.subject().and_then(|row| Some((row.socket?, label(row))));
        match target {
            Some((socket, label)) => self.mode = Mode::Confirm(command(socket, label)),
            None => self.message = Some(self.without_subject("k and K act on one connection: ")),
        }
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.still_at = None;
        self.follow();
    }

    /// Goes to the sample before or after the one that is shown; after the last one the screen follows again.
    fn step(&mut self, forward: bool) {
        // Of a filter without a sample yet, the last one of another filter is the one before.
        let number = self.shown().map_or(u64::MAX, |sample| sample.number);
        match self.history.adjacent(self.view, number, forward) {
            Some(other) => self.still_at = Some(other),
            None if forward => self.still_at = None,
            None => self.message = Some("nothing older is kept".to_owned()),
        }
        self.follow();
    }

    /// Shows the details of a connection or of a finding, or the connections of another row.
    fn enter(&mut self) {
        let Some(row) = self.selected() else { return };
        if let Some(text) = &row.text {
            self.mode = Mode::Text(text.to_string(), 0);
            return;
        }
        match (row.socket, row.filter.clone()) {
            (Some(socket), _) => {
                (self.mode, self.details_first) = (Mode::Details(socket), 0);
            }
            (None, Some(filter)) => {
                self.narrow(&filter);
                self.show(View::Sockets);
            }
            (None, None) => self.message = Some("this row has no sockets of its own".to_owned()),
        }
    }

    /// Adds a condition to the filter.
    fn narrow(&mut self, condition: &str) {
        let both = if self.filter.is_empty() || self.filter == condition {
            condition.to_owned()
        } else {
            format!("( {} ) and {condition}", self.filter)
        };
        self.set_filter(both);
    }

    fn set_filter(&mut self, filter: String) {
        // It was about the one before.
        self.failure = None;
        self.filter = filter;
    }

    fn reverse(&mut self) {
        self.orders[self.view.index()].descending ^= true;
        self.follow();
    }

    fn sort_by_neighbour(&mut self, forward: bool) {
        let Some(sample) = self.shown() else { return };
        let names: Vec<&'static str> = sample.table.headings.iter().map(|heading| heading.name).collect();
        if names.is_empty() {
            return;
        }
        let order = self.order();
        let now = names.iter().position(|name| *name == order.column);
        let next = match now {
            Some(now) if forward => (now + 1) % names.len(),
            Some(now) => (now + names.len() - 1) % names.len(),
            None => 0,
        };
        self.sort_by(names[next]);
    }

    /// Sorts by a column: the largest first, if it has numbers.
    fn sort_by(&mut self, column: &'static str) {
        let is_number = self.shown().is_some_and(|sample| {
            let headings = &sample.table.headings;
            headings
                .iter()
                .any(|heading| heading.name == column && heading.is_right)
        });
        self.orders[self.view.index()] = super::Order {
            column,
            descending: is_number,
        };
        self.follow();
    }

    /// Acts on what was clicked: a second click on a row is Enter.
    pub(crate) fn click(&mut self, target: Target) {
        if self.mode != Mode::Table {
            return;
        }
        match target {
            Target::View(view) => self.show(view),
            Target::Heading(name) if name == self.order().column => self.reverse(),
            Target::Heading(name) => self.sort_by(name),
            Target::Row(index) if index == self.cursor().index => self.enter(),
            Target::Row(index) => self.select(index),
        }
    }
}

/// Returns what names a row: its first cells with letters.
fn label(row: &Row) -> String {
    let texts = row
        .cells
        .iter()
        .map(|cell| &*cell.text)
        .filter(|text| text.contains(':') || text.contains('.'));
    texts.take(2).collect::<Vec<_>>().join(" ")
}

/// Returns the words of a row that `explain` may know.
fn explained(row: &Row) -> String {
    if let Some(words) = &row.explained {
        return words.to_string();
    }
    let texts = row.cells.iter().map(|cell| &*cell.text);
    let mut words = texts.filter(|text| {
        text.len() > 2
            && text
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || b"_-".contains(&byte))
    });
    words.next().unwrap_or_default().to_owned()
}

/// Lines of the screen that are no details: title, views, how many do not fit, keys.
const DETAILS_CHROME: usize = 4;
/// Rows that the wheel of the mouse moves by.
const WHEEL_ROWS: usize = 3;
const INTERVAL_MIN: Duration = Duration::from_millis(250);
const INTERVAL_MAX: Duration = Duration::from_secs(64);
const NOT_EXPLAINED: &str =
    "e explains the state of a socket, the reason of a drop, the counter of a finding: none here";

/// The text of `?`.
const HELP: &str = include_str!("help.txt");
/// That of `history replay`.
const HELP_REPLAY: &str = include_str!("help_replay.txt");
