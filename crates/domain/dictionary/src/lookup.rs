//! Finding by name, however it is spelled; and what comes near.

use crate::dictionary::Messages;
use crate::log::message_of;
use crate::{Entry, Kind, Placeholder};
use std::collections::HashMap;

/// What was found of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'d> {
    /// What it is; several where a name means several things.
    pub entries: Vec<&'d Entry<'static>>,
    /// Of a message: what stands at its places.
    pub values: Vec<(Placeholder, String)>,
    /// Where it is nothing: what comes near, the nearest first.
    pub near: Vec<&'d Entry<'static>>,
}

/// All spellings of all names, with the places of their entries.
#[derive(Debug)]
pub(crate) struct Names(HashMap<String, Vec<usize>>);

/// A dictionary in which somebody looks something up.
struct Lookup<'d> {
    entries: &'d [Entry<'static>],
    by_name: &'d HashMap<String, Vec<usize>>,
}

impl Names {
    pub(crate) fn new(entries: &[Entry<'static>]) -> Self {
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

    /// `entries` are those that it was made of.
    pub(crate) fn find<'d>(&'d self, entries: &'d [Entry<'static>], text: &str) -> Found<'d> {
        let lookup = Lookup {
            entries,
            by_name: &self.0,
        };
        lookup.find(text)
    }
}

impl<'d> Lookup<'d> {
    fn find(&self, text: &str) -> Found<'d> {
        let mut found = Found {
            entries: Vec::new(),
            values: Vec::new(),
            near: Vec::new(),
        };
        if text.contains([' ', ':', '='])
            && let Some(known) = Messages::new(self.entries).know(message_of(text).text)
        {
            found.entries.push(known.entry);
            let values = known.values.into_iter();
            found.values = values.map(|(place, value)| (place, value.to_owned())).collect();
            found.entries.extend(self.named_so(&normal(text)));
        }
        let ways: [&dyn Fn() -> Vec<&'d Entry<'static>>; 3] = [
            &|| self.named(text),
            &|| errno(text).map_or_else(Vec::new, |number| self.named_so(&number)),
            &|| self.named_within(text),
        ];
        for way in ways {
            if found.entries.is_empty() {
                found.entries = way();
            }
        }
        if found.entries.is_empty() {
            found.near = self.near(text);
        }
        found
    }

    /// Entries of which this is a name. Where one is exactly so, others that differ in case are not meant (`rtt`, `RTT`).
    fn named(&self, text: &str) -> Vec<&'d Entry<'static>> {
        let mut ways = asked(text).into_iter().map(|name| self.named_so(&name));
        ways.find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Entries that have this name, which is [`normal`].
    fn named_so(&self, name: &str) -> Vec<&'d Entry<'static>> {
        let found = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        found.iter().map(|&nth| &self.entries[nth]).collect()
    }

    /// Entries that are named in a line of some tool: `TcpExtListenOverflows  12  0.0`, `net.core.somaxconn = 128`.
    fn named_within(&self, text: &str) -> Vec<&'d Entry<'static>> {
        let mut found: Vec<&Entry<'static>> = Vec::new();
        let mut add = |entries: Vec<&'d Entry<'static>>| {
            for entry in entries {
                if !found.contains(&entry) && found.len() < WITHIN_MAX {
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
                let columns = self.named_so(&normal(name)).into_iter();
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

    /// Names that were mistyped, names of which this is a part, entries that speak of its words.
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
            ranked = self.speaking_of(text);
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

    /// Entries in which most of the words occur; words that are rarer count for more.
    fn speaking_of(&self, text: &str) -> Vec<(u32, usize)> {
        let text = text.to_lowercase();
        let mut words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.len() > 2 && !word.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        words.sort_unstable();
        words.dedup();
        words.truncate(WORDS_MAX);
        if words.is_empty() {
            return Vec::new();
        }
        let all: Vec<String> = self
            .entries
            .iter()
            .map(|entry| {
                let mut all = entry.name.to_lowercase();
                for text in entry.texts.iter().chain(&entry.also).chain([&entry.meaning]) {
                    all.push(' ');
                    all.push_str(&text.to_lowercase());
                }
                all
            })
            .collect();
        let weights: Vec<f64> = words
            .iter()
            .map(|word| {
                let known = all.iter().filter(|text| has_word(text, word)).count();
                (all.len() as f64 / (1 + known) as f64).ln().max(0.0) * f64::from(u8::from(known > 0))
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
                (share >= SHARE_MIN).then(|| (1_000 - (share * 1_000.0) as u32, nth))
            })
            .collect();
        ranked.sort_unstable();
        ranked.truncate(NEAR_MAX);
        ranked
    }
}

/// A word, or one that begins with it: `flood` in `flooding`.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric())
}

/// How near, the least first; `None`: not near.
fn distance(name: &str, known: &str) -> Option<u32> {
    let typos_max = (name.chars().count() / 4).clamp(1, 3);
    if known.len().abs_diff(name.len()) <= typos_max {
        let typos = strsim::damerau_levenshtein(name, known);
        if typos <= typos_max {
            return u32::try_from(typos).ok();
        }
    }
    let is_part = name.len() >= 4 && (known.contains(name) || known.len() >= 6 && name.contains(known));
    // The less is missing the nearer.
    is_part.then(|| 10 + u32::try_from(known.len().abs_diff(name.len())).unwrap_or(u32::MAX - 10))
}

/// Every way to write the name of an entry, as [`normal`] makes it.
fn spellings(entry: &Entry<'_>) -> Vec<String> {
    let mut spellings = vec![normal(&entry.name)];
    spellings.extend(entry.also.iter().map(|name| normal(name)));
    let name = entry.name.as_ref();
    match entry.kind {
        // `tcp_sack` of `net.ipv4.tcp_sack`; what stands behind `*.` of what an interface has of its own.
        Kind::Setting => spellings.extend(name.match_indices('.').map(|(dot, _)| normal(&name[dot + 1..]))),
        Kind::DropReason => spellings.extend(name.strip_prefix(DROP_REASON).map(normal)),
        Kind::TcpInfo => spellings.extend(name.strip_prefix("tcpi_").map(normal)),
        // `Recv-Q` of `ss: Recv-Q`
        Kind::Column => spellings.extend(name.split_once(": ").map(|(_, column)| normal(column))),
        Kind::Message | Kind::Counter | Kind::State | Kind::Timer | Kind::Error => {}
    }
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

/// The names that a text may be, the likeliest first.
fn asked(text: &str) -> Vec<String> {
    let text = text.trim().trim_matches(['"', '\'', '`']);
    let mut names = vec![normal(text)];
    // A line of `sysctl`, of `nstat`; a file of a setting.
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

/// `error -104`, `errno=104`, `-104` -> `errno 104`, as [`normal`] has it. Numbers behind other words are other numbers.
fn errno(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let number = text.rsplit([' ', '=', '-', ':']).next()?;
    let is_number =
        !number.is_empty() && number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    let before = text[..text.len() - number.len()].trim_end_matches([' ', '=', '-', ':']);
    let is_told = ["errno", "error", "err", "rc", "ret"].contains(&before)
        || before.is_empty() && text.starts_with('-');
    (is_number && is_told).then(|| normal(&format!("errno {number}")))
}

/// `net.ipv4.conf.eth0.rp_filter` -> `net.ipv4.conf.*.rp_filter`; an interface may have dots in its name.
fn of_interface(setting: &str, any: &str) -> Option<String> {
    let (place, rest) = [".conf.", ".neigh."].into_iter().find_map(|place| {
        setting
            .split_once(place)
            .map(|(head, rest)| ((head, place), rest))
    })?;
    let (_, last) = rest.rsplit_once('.')?;
    Some(normal(&format!("{}{}{any}.{last}", place.0, place.1)))
}

/// One spelling of a name for all: case, and `-` for `_` and blanks, do not matter.
fn normal(name: &str) -> String {
    name.trim().replace(['_', ' '], "-").to_lowercase()
}

const DROP_REASON: &str = "SKB_DROP_REASON_";
/// Longer ones are no names.
const NAME_LEN_MAX: usize = 80;
const NEAR_MAX: usize = 5;
/// Entries told of one line of a tool.
const WITHIN_MAX: usize = 40;
const WORDS_MAX: usize = 16;
/// Of what its words weigh, an entry must speak of so much.
const SHARE_MIN: f64 = 0.5;
