//! Lookup by name in any spelling, and search for similar entries.

use crate::blanks::collapsed;
use crate::counter_name::counter_names;
use crate::error_text;
use crate::family;
use crate::log_line::{message_of, plain};
use crate::messages::Messages;
use crate::names::normal;
use crate::unknown::{looks_like_trouble, unsigned_errno};
use crate::words::{has_word, is_word_begin, words};
use crate::{Entry, Kind, Placeholder, Severity, packed};
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::collections::HashSet;

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Matching entries; several if a name has several meanings.
    pub entries: Vec<&'static Entry<'static>>,
    /// For a message: the values of its placeholders.
    pub values: Vec<(Placeholder, String)>,
    /// For a message: severity of what was said.
    pub severity: Option<Severity>,
    /// For a message: which of the entry's texts it is.
    pub wording: Option<usize>,
    /// For a message: no text of the entry, which is that of the driver's family, has it.
    pub is_unread: bool,
    /// Without a match: similar entries, the most similar first.
    pub near: Vec<&'static Entry<'static>>,
    /// The name that was probably meant, if `entries` has not what was asked for but the only entry that comes near.
    pub meant: Option<&'static str>,
}

/// Looks up a text.
pub(crate) fn find(text: &str) -> Found {
    let mut found = Found {
        entries: Vec::new(),
        values: Vec::new(),
        severity: None,
        wording: None,
        is_unread: false,
        near: Vec::new(),
        meant: None,
    };
    if text.contains([' ', ':', '=']) && packed::named(&normal(text)).is_empty() {
        let line = plain(text);
        let line = collapsed(message_of(&line).text);
        if let Some(known) = Messages::built_in()
            .match_line(&line)
            .or_else(|| family::matched(&line, looks_like_trouble(&line)))
            .or_else(|| family::trace(&line))
            .or_else(|| error_text::matched(&line))
        {
            found.entries.push(known.entry());
            found.severity = Some(known.severity);
            let is_unread = known.wording == family::NO_WORDING;
            found.is_unread = is_unread && known.entry().is_family();
            found.wording = Some(known.wording).filter(|_| !is_unread);
            let values = known.values.into_iter();
            found.values = values.map(|(place, value)| (place, value.to_owned())).collect();
        }
    }
    let lookups: [&dyn Fn() -> Vec<&'static Entry<'static>>; 4] = [
        &|| named(text),
        &|| counter_of_driver(text).into_iter().collect(),
        &|| errno(text).map_or_else(Vec::new, |number| packed::named(&number)),
        &|| named_in_line(text),
    ];
    for lookup in lookups {
        if found.entries.is_empty() {
            found.entries = lookup();
        }
    }
    if found.entries.is_empty() {
        found.near = near(text);
        if let Some(entry) = meant(text, &found.near) {
            found.meant = Some(&entry.name);
            found.entries.push(entry);
            found.near.clear();
        }
    }
    found
}

/// The entry of a counter, or of a column of `ip` or `tc` (`ip link: missed`).
pub(crate) fn counter(name: &str) -> Option<&'static Entry<'static>> {
    counter_names(name).into_iter().find_map(|name| {
        let mut entries = packed::named(&normal(&name)).into_iter();
        // `rx_errors` is a counter of drivers, `RX errors` a column.
        entries.find(|entry| entry.kind == Kind::Counter || entry.kind == Kind::Column && name.contains(": "))
    })
}

/// The entry of an error number, without its sign.
pub(crate) fn error(number: u16) -> Option<&'static Entry<'static>> {
    let found = packed::named(&normal(&format!("errno {number}")));
    found.into_iter().find(|entry| entry.kind == Kind::Error)
}

/// For each of these lines, the message that has most words of it. All texts are read once for all lines, and not kept: what no line has
/// takes no memory afterwards.
pub(crate) fn similar_messages(lines: &[&str]) -> Vec<Option<&'static Entry<'static>>> {
    let said: Vec<String> = lines.iter().map(|line| said(line).to_lowercase()).collect();
    let words: Vec<Vec<&str>> = said.iter().map(|said| search_words(said)).collect();
    // Each word with its line and its bit there.
    let places: Vec<(usize, u32, &str)> = (0..)
        .zip(&words)
        .flat_map(|(line, words)| (0..).zip(words).map(move |(nth, &word)| (line, 1 << nth, word)))
        .collect();
    let finder = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(places.iter().map(|&(.., word)| word));
    let Ok(finder) = finder else {
        // The only error is an excessive number of words.
        return vec![None; lines.len()];
    };
    // For each line, the texts that have a word of it: number of the entry, and a bit for each word.
    let mut held = vec![Vec::new(); lines.len()];
    let mut bits = vec![0; lines.len()];
    let mut count = 0;
    // Each text by itself: all texts of a large family together have the words of any line.
    packed::for_each_text(|number, text| {
        count += 1;
        for found in finder.find_overlapping_iter(text) {
            if is_word_begin(text, found.start()) {
                let (line, bit, _) = places[found.pattern()];
                bits[line] |= bit;
            }
        }
        for (bits, held) in bits.iter_mut().zip(&mut held) {
            if *bits != 0 {
                held.push((number, std::mem::take(bits)));
            }
        }
    });
    let best = lines
        .iter()
        .zip(words.iter().zip(&held))
        .map(|(line, (words, held))| {
            let ranked = ranked_by_words(words.len(), SIMILAR_SHARE_MIN, count, held);
            let first_word = first_word(line);
            let mut entries = ranked.into_iter().map(|(_, number)| packed::entry(number));
            entries.find(|entry| may_say(entry, &first_word))
        });
    best.collect()
}

/// A line without its head: driver and device say nothing about what happened.
fn said(line: &str) -> &str {
    match line.rsplit_once(": ") {
        Some((head, rest)) if rest.len() >= head.len() / 2 => rest,
        _ => line,
    }
}

/// A bit for each of these words that the text has.
fn held_words(text: &str, words: &[&str]) -> u32 {
    let words = words.iter().enumerate();
    words.fold(0, |bits, (nth, word)| {
        bits | u32::from(has_word(text, word)) << nth
    })
}

/// How a message begins, in lower case: mostly its driver.
fn first_word(text: &str) -> String {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    text[..end.unwrap_or(text.len())].to_ascii_lowercase()
}

/// Whether the part of the kernel that an entry is about may have said a message with this first word: what one driver says is
/// no hint for the message of another.
fn may_say(entry: &Entry<'_>, first_word: &str) -> bool {
    if !entry.source.contains("drivers/") && !entry.source.contains("out of tree") {
        return true;
    }
    let is_kin = |driver: &str| {
        driver.len() >= DRIVER_LEN_MIN && (first_word.starts_with(driver) || driver.starts_with(first_word))
    };
    // `ixgbe {name}: ...`, `mt7{name} {name}: ...`, `bnx2: ...`
    let has_head = |text: &str| {
        let Some(end) = text.find([' ', ':', '{']) else {
            return false;
        };
        let rest = &text[end..];
        (rest.starts_with([':', '{']) || rest.starts_with(" {")) && is_kin(&text[..end])
    };
    first_word.len() >= DRIVER_LEN_MIN && entry.texts.iter().any(|text| has_head(text))
}

/// Entries with this name. An exact match excludes others that differ in case (`rtt`, `RTT`).
fn named(text: &str) -> Vec<&'static Entry<'static>> {
    let mut lookups = candidate_names(text).into_iter().map(|name| packed::named(&name));
    lookups.find(|found| !found.is_empty()).unwrap_or_default()
}

/// The entry of a counter of `ethtool -S`, with or without its value.
fn counter_of_driver(text: &str) -> Option<&'static Entry<'static>> {
    let text = text.trim();
    let name = match text.rsplit_once(": ") {
        Some((name, value)) if value.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => text,
    };
    if name.len() > NAME_LEN_MAX || !name.contains(['_', '.', '[', ' ']) {
        return None;
    }
    counter_names(name).into_iter().find_map(|name| {
        let found = packed::named(&normal(&name));
        found.into_iter().find(|entry| entry.kind == Kind::Counter)
    })
}

/// Entries named in a line of a tool: `TcpExtListenOverflows  12  0.0`, `net.core.somaxconn = 128`.
fn named_in_line(text: &str) -> Vec<&'static Entry<'static>> {
    let mut found: Vec<&Entry<'static>> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |entries: Vec<&'static Entry<'static>>| {
        for entry in entries {
            if found.len() < LINE_ENTRIES_MAX && !found.iter().any(|known| std::ptr::eq(*known, entry)) {
                found.push(entry);
            }
        }
    };
    for word in text.split([' ', '\t', ',', ';', '=', '(', ')', '<', '>', '"', '\'', '`']) {
        if !seen.insert(word) {
            continue;
        }
        // `rto:204` of `ss -i`
        if let Some((name, value)) = word.split_once(':')
            && !value.is_empty()
            && !name.is_empty()
        {
            let columns = packed::named(&normal(name)).into_iter();
            add(columns.filter(|entry| entry.kind == Kind::Column).collect());
        }
        let word = word.trim_end_matches([':', '.']);
        let has_capitals = || word.bytes().filter(u8::is_ascii_uppercase).count() > 1;
        if word.len() > 3 && (word.contains(['_', '.', '/']) || has_capitals()) {
            add(named(word));
        }
    }
    found
}

/// The entry that was meant: a single one comes near, or one is the setting, counter or state whose name begins or ends with the
/// text while others only contain it (`closewait`, `tw_reuse`, `somaxcon`).
fn meant(text: &str, near: &[&'static Entry<'static>]) -> Option<&'static Entry<'static>> {
    let compact = compact(text);
    if compact.len() < MEANT_LEN_MIN || text.trim().contains(' ') {
        return None;
    }
    // The same letters with other marks between them.
    let mut same: Vec<usize> = Vec::new();
    let mut parts: Vec<usize> = Vec::new();
    let mut typos: Vec<usize> = Vec::new();
    let letters = Letters::of(&compact);
    let mut name = String::new();
    for (known, entries) in packed::all_spellings() {
        name.clear();
        push_compact(&mut name, known);
        if name.len() + 1 < compact.len() {
            continue;
        }
        if name == compact {
            same.extend(entries.clone());
        } else if name.len() < NAME_LEN_MAX && (name.starts_with(&compact) || name.ends_with(&compact)) {
            parts.extend(entries.clone());
        }
        if name.len().abs_diff(compact.len()) <= 1
            && letters.distance_min(&Letters::of(&name)) <= 1
            && strsim::damerau_levenshtein(&name, &compact) == 1
        {
            typos.extend(entries);
        }
    }
    for mut candidates in [same, typos, parts] {
        candidates.sort_unstable();
        candidates.dedup();
        match candidates[..] {
            [] => {}
            [one] => return Some(packed::entry(one)),
            _ => return None,
        }
    }
    match near {
        [one] => Some(one),
        _ => None,
    }
}

/// Entries with similar names, with names that contain the text, or with its words.
fn near(text: &str) -> Vec<&'static Entry<'static>> {
    let name = normal(text);
    let mut ranked: Vec<(u32, usize)> = Vec::new();
    if name.len() >= 2 && name.len() <= NAME_LEN_MAX {
        let searched = Searched {
            name: &name,
            letters: Letters::of(&name),
            finder: memmem::Finder::new(&name),
            typos_max: (name.chars().count() / 4).clamp(1, 3),
        };
        for (known, entries) in packed::all_spellings() {
            let Some(rank) = searched.distance(known) else {
                continue;
            };
            ranked.extend(entries.map(|number| (rank, number)));
        }
    }
    if ranked.is_empty() {
        let text = text.to_lowercase();
        let words = search_words(&text);
        let mut held = vec![0; packed::len()];
        // The words of most questions are those of some entry; a single unknown one costs only this search.
        let all = packed::words().as_bytes();
        if words
            .iter()
            .any(|word| memmem::find(all, word.as_bytes()).is_some())
        {
            packed::for_each_word(|known, numbers| {
                let bits = held_words(known, &words);
                if bits != 0 {
                    numbers.for_each(|number| held[number] |= bits);
                }
            });
        }
        let held: Vec<_> = held.into_iter().enumerate().collect();
        ranked = ranked_by_words(words.len(), SHARE_MIN, held.len(), &held);
    }
    ranked.sort_unstable();
    let mut near: Vec<usize> = Vec::new();
    for (_, number) in ranked {
        if near.len() < NEAR_MAX && !near.contains(&number) {
            near.push(number);
        }
    }
    near.into_iter().map(packed::entry).collect()
}

/// The words of a text in lower case to search for.
fn search_words(lower: &str) -> Vec<&str> {
    let mut words: Vec<&str> = words(lower).collect();
    words.sort_unstable();
    words.dedup();
    words.truncate(WORDS_MAX);
    words
}

/// Numbers of the texts, with their rank, that contain at least this share of so many words; rare words weigh more. `held` has the number
/// of each text, or at least of those with a word, with a bit for each word that it has; `texts` is the number of all.
fn ranked_by_words(words: usize, share_min: f64, texts: usize, held: &[(usize, u32)]) -> Vec<(u32, usize)> {
    // Words that no entry has are names and typing errors of a question, but say much in a message.
    let is_strict = share_min > SHARE_MIN;
    let weights: Vec<f64> = (0..words)
        .map(|nth| {
            let known = held.iter().filter(|(_, bits)| bits & 1 << nth != 0).count();
            (texts as f64 / (1 + known) as f64).ln().max(0.0) * f64::from(u8::from(known > 0 || is_strict))
        })
        .collect();
    let best: f64 = weights.iter().sum();
    let mut ranked: Vec<(u32, usize)> = held
        .iter()
        .filter_map(|&(number, bits)| {
            let held = weights.iter().enumerate().filter(|(nth, _)| bits & 1 << nth != 0);
            let share = held.map(|(_, weight)| weight).sum::<f64>() / best;
            (share >= share_min).then(|| (1_000 - (share * 1_000.0) as u32, number))
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(NEAR_MAX);
    ranked
}

/// The letters and digits of a name.
fn compact(name: &str) -> String {
    let mut compact = String::with_capacity(name.len());
    push_compact(&mut compact, name);
    compact
}

fn push_compact(compact: &mut String, name: &str) {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    letters.for_each(|byte| compact.push(char::from(byte.to_ascii_lowercase())));
}

/// How often each ASCII letter stands in a name, by its last bits.
struct Letters([u8; 32]);

impl Letters {
    fn of(name: &str) -> Self {
        let mut counts = [0_u8; 32];
        for byte in name.bytes().filter(u8::is_ascii) {
            let count = &mut counts[usize::from(byte) % 32];
            *count = count.saturating_add(1);
        }
        Self(counts)
    }

    /// The least number of typing errors between two names with these letters: each adds or removes one letter, or both. Counting is
    /// much faster than comparing.
    fn distance_min(&self, other: &Self) -> usize {
        let pairs = self.0.iter().zip(&other.0);
        let (more, less) = pairs.fold((0, 0), |(more, less), (this, other)| {
            (
                more + u32::from(this.saturating_sub(*other)),
                less + u32::from(other.saturating_sub(*this)),
            )
        });
        more.max(less) as usize
    }
}

/// A name that is searched, with what makes comparing it fast.
struct Searched<'n> {
    name: &'n str,
    letters: Letters,
    finder: memmem::Finder<'n>,
    typos_max: usize,
}

impl Searched<'_> {
    /// Distance to a known name; `None`: not similar.
    fn distance(&self, known: &str) -> Option<u32> {
        let name = self.name;
        if known.len().abs_diff(name.len()) <= self.typos_max
            && self.letters.distance_min(&Letters::of(known)) <= self.typos_max
        {
            let typos = strsim::damerau_levenshtein(name, known);
            if typos <= self.typos_max {
                return u32::try_from(typos).ok();
            }
        }
        let is_part = name.len() >= 4
            && (known.len() >= name.len() && self.finder.find(known.as_bytes()).is_some()
                || (6..=name.len()).contains(&known.len()) && name.contains(known));
        // The fewer characters are missing, the more similar.
        is_part.then(|| 10 + u32::try_from(known.len().abs_diff(name.len())).unwrap_or(u32::MAX - 10))
    }
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
    let word = text.rsplit([' ', '=', '-', ':']).next()?;
    let is_number = word.len() <= 10 && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| word.parse::<u32>().ok()).flatten()?;
    // A driver that prints -110 without its sign gives 4294967186.
    let number = match number {
        number if word.len() <= 3 => number,
        number => unsigned_errno(number)?.into(),
    };
    let before = text[..text.len() - word.len()].trim_end_matches([' ', '=', '-', ':']);
    let is_error_word = ["errno", "error", "err", "rc", "ret"].contains(&before)
        // A bare number is one, too: nothing else in the dictionary is.
        || before.is_empty();
    is_error_word.then(|| normal(&format!("errno {number}")))
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

/// Longer texts are no names.
const NAME_LEN_MAX: usize = 80;
/// Shorter ones are near to too much.
const MEANT_LEN_MIN: usize = 5;
const NEAR_MAX: usize = 5;
/// Shorter words name no driver.
const DRIVER_LEN_MIN: usize = 3;
/// Entries shown for one line of a tool.
const LINE_ENTRIES_MAX: usize = 40;
const WORDS_MAX: usize = 16;
/// Least part of the words' weight that an entry must contain.
const SHARE_MIN: f64 = 0.5;
/// The same for a line of a log, of which all words are those of the kernel.
const SIMILAR_SHARE_MIN: f64 = 0.6;
