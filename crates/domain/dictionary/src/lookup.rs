//! Lookup by name in any spelling, and search for similar entries.

use crate::counter_name::counter_names;
use crate::log_line::{collapsed, message_of, plain};
use crate::messages::Messages;
use crate::{Entry, Kind, Placeholder, stanza};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'d> {
    /// Matching entries; several if a name has several meanings.
    pub entries: Vec<&'d Entry<'static>>,
    /// For a message: the values of its placeholders.
    pub values: Vec<(Placeholder, String)>,
    /// Without a match: similar entries, the most similar first.
    pub near: Vec<&'d Entry<'static>>,
    /// The name that was probably meant, if `entries` has not what was asked for but the only entry that comes near.
    pub meant: Option<&'d str>,
}

/// All spellings of all names, with the indices of their entries.
#[derive(Debug)]
pub(crate) struct Names(HashMap<String, Vec<usize>>);

/// A dictionary with its indices.
struct Lookup<'d> {
    entries: &'d [Entry<'static>],
    by_name: &'d HashMap<String, Vec<usize>>,
}

impl Names {
    fn new(entries: &[Entry<'static>]) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (nth, entry) in entries.iter().enumerate() {
            for name in spellings(entry) {
                let known = by_name.entry(name).or_default();
                if known.last() != Some(&nth) {
                    known.push(nth);
                }
            }
        }
        Self(by_name)
    }
}

/// A dictionary whose names are indexed at the first lookup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index<'d> {
    entries: &'d OnceLock<Vec<Entry<'static>>>,
    names: &'d OnceLock<Names>,
}

impl<'d> Index<'d> {
    /// Both must be empty, or those of the built-in entries.
    pub(crate) fn new(entries: &'d OnceLock<Vec<Entry<'static>>>, names: &'d OnceLock<Names>) -> Self {
        Self { entries, names }
    }

    /// All entries by kind, in the order of the files.
    pub(crate) fn entries(self) -> &'d [Entry<'static>] {
        self.entries.get_or_init(|| stanza::built_in(&Kind::ALL))
    }

    /// Looks up a text.
    pub(crate) fn find(self, text: &str) -> Found<'d> {
        self.lookup().find(text)
    }

    /// The entry of a counter, or of a column of `ip` or `tc` (`ip link: missed`).
    pub(crate) fn counter(self, name: &str) -> Option<&'d Entry<'static>> {
        let lookup = self.lookup();
        counter_names(name).into_iter().find_map(|name| {
            let entries = lookup.with_normal_name(&normal(&name));
            // `rx_errors` is a counter of drivers, `RX errors` a column.
            let is_wanted = |entry: &&&Entry<'static>| {
                entry.kind == Kind::Counter || entry.kind == Kind::Column && name.contains(": ")
            };
            entries.iter().find(is_wanted).copied()
        })
    }

    /// The entry of an error number, without its sign.
    pub(crate) fn error(self, number: u16) -> Option<&'d Entry<'static>> {
        let found = self
            .lookup()
            .with_normal_name(&normal(&format!("errno {number}")));
        found.into_iter().find(|entry| entry.kind == Kind::Error)
    }

    /// The message that has most words of this text.
    pub(crate) fn similar_message(self, text: &str) -> Option<&'d Entry<'static>> {
        // Driver and device say nothing about what happened.
        let words =
            text.rsplit_once(": ").map_or(
                text,
                |(head, rest)| {
                    if rest.len() < head.len() / 2 { text } else { rest }
                },
            );
        let of_texts = |entry: &Entry<'_>| match entry.kind {
            Kind::Message => entry.texts.join(" ").to_lowercase(),
            _ => String::new(),
        };
        let ranked = self.lookup().containing_words(words, SIMILAR_SHARE_MIN, of_texts);
        ranked.first().map(|(_, nth)| &self.entries()[*nth])
    }

    fn lookup(self) -> Lookup<'d> {
        Lookup {
            entries: self.entries(),
            by_name: &self.names.get_or_init(|| Names::new(self.entries())).0,
        }
    }
}

impl<'d> Lookup<'d> {
    fn find(&self, text: &str) -> Found<'d> {
        let mut found = Found {
            entries: Vec::new(),
            values: Vec::new(),
            near: Vec::new(),
            meant: None,
        };
        let is_name = self.by_name.contains_key(&normal(text));
        if !is_name
            && text.contains([' ', ':', '='])
            && let Some(known) =
                Messages::new(self.entries).match_line(&collapsed(message_of(&plain(text)).text))
        {
            found.entries.push(known.entry);
            let values = known.values.into_iter();
            found.values = values.map(|(place, value)| (place, value.to_owned())).collect();
        }
        let lookups: [&dyn Fn() -> Vec<&'d Entry<'static>>; 4] = [
            &|| self.named(text),
            &|| self.counter(text).into_iter().collect(),
            &|| errno(text).map_or_else(Vec::new, |number| self.with_normal_name(&number)),
            &|| self.named_in_line(text),
        ];
        for lookup in lookups {
            if found.entries.is_empty() {
                found.entries = lookup();
            }
        }
        if found.entries.is_empty() {
            found.near = self.near(text);
            if let Some(entry) = self.meant(text, &found.near) {
                found.meant = Some(&entry.name);
                found.entries.push(entry);
                found.near.clear();
            }
        }
        found
    }

    /// Entries with this name. An exact match excludes others that differ in case (`rtt`, `RTT`).
    fn named(&self, text: &str) -> Vec<&'d Entry<'static>> {
        let mut lookups = candidate_names(text)
            .into_iter()
            .map(|name| self.with_normal_name(&name));
        lookups.find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The entry of a counter of `ethtool -S`, with or without its value.
    fn counter(&self, text: &str) -> Option<&'d Entry<'static>> {
        let text = text.trim();
        let name = match text.rsplit_once(": ") {
            Some((name, value)) if value.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => text,
        };
        if name.len() > NAME_LEN_MAX || !name.contains(['_', '.', '[', ' ']) {
            return None;
        }
        counter_names(name).into_iter().find_map(|name| {
            let found = self.with_normal_name(&normal(&name));
            found.into_iter().find(|entry| entry.kind == Kind::Counter)
        })
    }

    /// Entries with this [`normal`] name.
    fn with_normal_name(&self, name: &str) -> Vec<&'d Entry<'static>> {
        let found = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        found.iter().map(|&nth| &self.entries[nth]).collect()
    }

    /// Entries named in a line of a tool: `TcpExtListenOverflows  12  0.0`, `net.core.somaxconn = 128`.
    fn named_in_line(&self, text: &str) -> Vec<&'d Entry<'static>> {
        let mut found: Vec<&Entry<'static>> = Vec::new();
        let mut add = |entries: Vec<&'d Entry<'static>>| {
            for entry in entries {
                if !found.contains(&entry) && found.len() < LINE_ENTRIES_MAX {
                    found.push(entry);
                }
            }
        };
        for word in text.split([' ', '\t', ',', ';', '=', '(', ')', '<', '>', '"', '\'', '`']) {
            // `rto:204` of `ss -i`
            if let Some((name, value)) = word.split_once(':')
                && !value.is_empty()
                && !name.is_empty()
            {
                let columns = self.with_normal_name(&normal(name)).into_iter();
                add(columns.filter(|entry| entry.kind == Kind::Column).collect());
            }
            let word = word.trim_end_matches([':', '.']);
            let has_capitals = || word.bytes().filter(u8::is_ascii_uppercase).count() > 1;
            if word.len() > 3 && (word.contains(['_', '.', '/']) || has_capitals()) {
                add(self.named(word));
            }
        }
        found
    }

    /// The entry that was meant: a single one comes near, or one is the setting, counter or state whose name begins or ends with the
    /// text while others only contain it (`closewait`, `tw_reuse`, `somaxcon`).
    fn meant(&self, text: &str, near: &[&'d Entry<'static>]) -> Option<&'d Entry<'static>> {
        let compact = compact(text);
        if compact.len() < MEANT_LEN_MIN || text.trim().contains(' ') {
            return None;
        }
        // The same letters with other marks between them.
        let mut same: Vec<usize> = Vec::new();
        let mut parts: Vec<usize> = Vec::new();
        let mut typos: Vec<usize> = Vec::new();
        for (name, entries) in self.by_name {
            let name = self::compact(name);
            if name == compact {
                same.extend(entries);
            } else if name.len() < NAME_LEN_MAX && (name.starts_with(&compact) || name.ends_with(&compact)) {
                parts.extend(entries);
            }
            if name.len().abs_diff(compact.len()) <= 1 && strsim::damerau_levenshtein(&name, &compact) == 1 {
                typos.extend(entries);
            }
        }
        for mut candidates in [same, typos, parts] {
            candidates.sort_unstable();
            candidates.dedup();
            match candidates[..] {
                [] => {}
                [one] => return Some(&self.entries[one]),
                _ => return None,
            }
        }
        match near {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Entries with similar names, with names that contain the text, or with its words.
    fn near(&self, text: &str) -> Vec<&'d Entry<'static>> {
        let name = normal(text);
        let mut ranked: Vec<(u32, usize)> = Vec::new();
        if name.len() >= 2 && name.len() <= NAME_LEN_MAX {
            for (known, entries) in self.by_name {
                let Some(rank) = distance(&name, known) else {
                    continue;
                };
                ranked.extend(entries.iter().map(|&nth| (rank, nth)));
            }
        }
        if ranked.is_empty() {
            ranked = self.containing_words(text, SHARE_MIN, |entry| {
                let mut all = entry.name.to_lowercase();
                for text in entry.texts.iter().chain(&entry.also).chain([&entry.meaning]) {
                    all.push(' ');
                    all.push_str(&text.to_lowercase());
                }
                all
            });
        }
        ranked.sort_unstable();
        let mut near: Vec<&Entry<'static>> = Vec::new();
        for (_, nth) in ranked {
            let entry = &self.entries[nth];
            if near.len() < NEAR_MAX && !near.contains(&entry) {
                near.push(entry);
            }
        }
        near
    }

    /// Entries whose texts contain at least this share of the words; rare words weigh more.
    fn containing_words(
        &self,
        text: &str,
        share_min: f64,
        texts_of: impl Fn(&Entry<'static>) -> String,
    ) -> Vec<(u32, usize)> {
        let text = text.to_lowercase();
        let mut words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            // Preparing the search for a longer one costs more than the search, for each entry.
            .filter(|word| (3..=NAME_LEN_MAX).contains(&word.len()))
            .filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        words.sort_unstable();
        words.dedup();
        words.truncate(WORDS_MAX);
        if words.is_empty() {
            return Vec::new();
        }
        let all: Vec<String> = self.entries.iter().map(texts_of).collect();
        // Words that no entry has are names and typing errors of a question, but say much in a message.
        let is_strict = share_min > SHARE_MIN;
        let weights: Vec<f64> = words
            .iter()
            .map(|word| {
                let known = all.iter().filter(|text| has_word(text, word)).count();
                (all.len() as f64 / (1 + known) as f64).ln().max(0.0)
                    * f64::from(u8::from(known > 0 || is_strict))
            })
            .collect();
        let best: f64 = weights.iter().sum();
        let mut ranked: Vec<(u32, usize)> = all
            .iter()
            .enumerate()
            .filter_map(|(nth, text)| {
                let held = words
                    .iter()
                    .zip(&weights)
                    .filter(|(word, _)| has_word(text, word));
                let share = held.map(|(_, weight)| weight).sum::<f64>() / best;
                (share >= share_min).then(|| (1_000 - (share * 1_000.0) as u32, nth))
            })
            .collect();
        ranked.sort_unstable();
        ranked.truncate(NEAR_MAX);
        ranked
    }
}

/// The letters and digits of a name.
fn compact(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect()
}

/// Whether the text has a word that begins with `word`: `flood` in `flooding`.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric())
}

/// Distance of two names; `None`: not similar.
fn distance(name: &str, known: &str) -> Option<u32> {
    let typos_max = (name.chars().count() / 4).clamp(1, 3);
    if known.len().abs_diff(name.len()) <= typos_max {
        let typos = strsim::damerau_levenshtein(name, known);
        if typos <= typos_max {
            return u32::try_from(typos).ok();
        }
    }
    let is_part = name.len() >= 4 && (known.contains(name) || known.len() >= 6 && name.contains(known));
    // The fewer characters are missing, the more similar.
    is_part.then(|| 10 + u32::try_from(known.len().abs_diff(name.len())).unwrap_or(u32::MAX - 10))
}

/// All spellings of the name of an entry, as [`normal`] makes them.
fn spellings(entry: &Entry<'_>) -> Vec<String> {
    let mut spellings = vec![normal(&entry.name)];
    spellings.extend(entry.also.iter().map(|name| normal(name)));
    let name = entry.name.as_ref();
    match entry.kind {
        // `tcp_sack` of `net.ipv4.tcp_sack`; for settings per interface the part after `*.`.
        Kind::Setting => spellings.extend(name.match_indices('.').map(|(dot, _)| normal(&name[dot + 1..]))),
        Kind::DropReason => spellings.extend(name.strip_prefix(DROP_REASON).map(normal)),
        Kind::TcpInfo => spellings.extend(name.strip_prefix("tcpi_").map(normal)),
        // `Recv-Q` of `ss: Recv-Q`
        Kind::Column => spellings.extend(name.split_once(": ").map(|(_, column)| normal(column))),
        Kind::Message | Kind::Counter | Kind::State | Kind::Timer | Kind::Error | Kind::Term => {}
    }
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

/// Possible names in a text, the most likely first.
fn candidate_names(text: &str) -> Vec<String> {
    let text = text.trim().trim_matches(['"', '\'', '`']);
    let mut names = vec![normal(text)];
    // A line of `sysctl` or `nstat`; the path of a setting.
    let bare = text.split(['=']).next().unwrap_or(text).trim();
    let bare = bare.strip_prefix("/proc/sys/").unwrap_or(bare);
    names.push(normal(bare));
    let dotted = bare.replace('/', ".");
    names.push(normal(&dotted));
    for any in ["*", "default"] {
        names.extend(of_interface(&dotted, any));
    }
    // `TcpExt: ListenOverflows`, `TcpExt.ListenOverflows`
    names.push(normal(&bare.replace([':', '.', ' '], "")));
    // Numbers vary: `123 times the listen queue of a socket overflowed`.
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    names.push(normal(&words.join(" ")));
    names.retain(|name| !name.is_empty());
    names
}

/// `error -104`, `errno=104`, `-104` -> `errno 104` in [`normal`] form. Numbers after other words are no
/// error numbers.
fn errno(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let number = text.rsplit([' ', '=', '-', ':']).next()?;
    let is_number =
        !number.is_empty() && number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    let before = text[..text.len() - number.len()].trim_end_matches([' ', '=', '-', ':']);
    let is_error_word = ["errno", "error", "err", "rc", "ret"].contains(&before)
        // A bare number is one, too: nothing else in the dictionary is.
        || before.is_empty();
    (is_number && is_error_word).then(|| normal(&format!("errno {number}")))
}

/// `net.ipv4.conf.eth0.rp_filter` -> `net.ipv4.conf.*.rp_filter`; an interface name may contain dots.
fn of_interface(setting: &str, any: &str) -> Option<String> {
    let (place, rest) = [".conf.", ".neigh."].into_iter().find_map(|place| {
        setting
            .split_once(place)
            .map(|(head, rest)| ((head, place), rest))
    })?;
    let (_, last) = rest.rsplit_once('.')?;
    Some(normal(&format!("{}{}{any}.{last}", place.0, place.1)))
}

/// The normal form of a name: lower case, `_` for `-` and blanks.
fn normal(name: &str) -> String {
    name.trim().replace(['_', ' '], "-").to_lowercase()
}

const DROP_REASON: &str = "SKB_DROP_REASON_";
/// Longer texts are no names.
const NAME_LEN_MAX: usize = 80;
/// Shorter ones are near to too much.
const MEANT_LEN_MIN: usize = 5;
const NEAR_MAX: usize = 5;
/// Entries shown for one line of a tool.
const LINE_ENTRIES_MAX: usize = 40;
const WORDS_MAX: usize = 16;
/// Least part of the words' weight that an entry must contain.
const SHARE_MIN: f64 = 0.5;
/// The same for a line of a log, of which all words are those of the kernel.
const SIMILAR_SHARE_MIN: f64 = 0.6;
