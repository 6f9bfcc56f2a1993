//! Each entry of each file says what it has to, and is found by it.

use crate::files::{examples, files};
use sockeye_dictionary::{Dictionary, Entry, Kind, Placeholder, Severity, stanza};
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What is wrong with an entry by itself.
fn errors(entry: &Entry<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut need = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{} {}: {what}", entry.kind, entry.name));
        }
    };
    need(!entry.name.is_empty(), "no name");
    need(entry.meaning.len() >= 40, "its meaning says too little");
    need(!entry.checks.is_empty(), "nothing to check");
    need(!entry.remedies.is_empty(), "no remedy");
    need(!entry.source.is_empty(), "no source");
    need(
        entry.source.contains('/') || entry.source.contains(".c") || entry.source.contains(".h"),
        "its source names no file",
    );
    let is_trouble = entry.severity.is_some_and(|severity| severity > Severity::Info);
    need(!is_trouble || !entry.causes.is_empty(), "trouble without a cause");
    let is_message = entry.kind == Kind::Message;
    need(
        is_message != entry.texts.is_empty(),
        "messages have texts, others none",
    );
    need(
        entry.texts.len() == entry.examples.len(),
        "an example for each text",
    );
    need(!is_message || entry.severity.is_some(), "how bad is it?");
    need(
        entry.kind != Kind::Counter || entry.severity.is_some(),
        "how bad is it when it moves?",
    );
    need(
        entry.kind != Kind::Setting
            || entry.until.is_some()
            || entry.default.is_some()
            || entry.unit.is_some()
            || !entry.values.is_empty(),
        "a setting needs its default, unit or values",
    );
    let is_reason = entry.kind == Kind::DropReason;
    need(
        (is_reason && !WITHOUT_CLASS.contains(&entry.name.as_ref())) == entry.class.is_some(),
        "a drop reason has a class, others have none",
    );
    let texts = [
        &entry.causes,
        &entry.checks,
        &entry.remedies,
        &entry.values,
        &entry.also,
        &entry.see,
    ];
    let all = texts
        .into_iter()
        .flatten()
        .chain([&entry.name, &entry.meaning, &entry.source]);
    for text in all {
        need(!text.trim().is_empty(), "an empty field");
        need(!text.contains("  "), &format!("two blanks: {text}"));
        need(
            !text.contains(['\t', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}']),
            &format!("odd characters: {text}"),
        );
        need(
            text.matches('`').count() % 2 == 0,
            &format!("a command does not end: {text}"),
        );
        for todo in ["TODO", "FIXME", "XXX", "???"] {
            need(!text.contains(todo), todo);
        }
    }
    for text in entry.causes.iter().chain(&entry.checks).chain(&entry.remedies) {
        need(text.len() >= 6, &format!("says too little: {text}"));
    }
    wrong
}

/// Whether two entries with texts of different lifetimes are equal.
fn same<'a>(one: &Entry<'a>, other: &Entry<'a>) -> bool {
    one == other
}

/// Each file of `data/` with its kind and name.
fn data() -> Vec<(Kind, String, String)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let files = Kind::ALL.into_iter().flat_map(|kind| {
        let files = files(&data, kind).unwrap();
        let named = move |(path, text): (PathBuf, String)| (kind, path.display().to_string(), text);
        files.into_iter().map(named)
    });
    files.collect()
}

#[test]
fn every_entry_has_its_required_fields() {
    let mut wrong = Vec::new();
    let mut names = HashSet::new();
    for (kind, path, text) in data() {
        for entry in stanza::entries(kind, &text) {
            match entry {
                Err(error) => wrong.push(format!("{path}: {error}")),
                Ok(entry) => {
                    wrong.extend(errors(&entry));
                    if !names.insert((kind, entry.name.clone().into_owned())) {
                        wrong.push(format!("{path}: {} twice", entry.name));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} errors:\n{}", wrong.len(), wrong.join("\n"));
}

/// The entries of the files are those in the binary.
#[test]
fn every_entry_of_the_files_is_packed() {
    let dictionary = Dictionary::new();
    let mut packed = dictionary.entries();
    for (kind, path, text) in data() {
        for mut entry in stanza::entries(kind, &text).flatten() {
            entry.examples.clear();
            let packed = packed.next();
            assert!(
                packed.is_some_and(|packed| same(packed, &entry)),
                "{path}: {} is {}",
                entry.name,
                packed.map_or("not packed", |packed| packed.name.as_ref())
            );
        }
    }
    assert_eq!(packed.next(), None);
}

#[test]
fn lines_of_the_files_are_short() {
    for (_, path, text) in data() {
        for (number, line) in text.lines().enumerate() {
            assert!(
                line.len() <= 140,
                "{path}:{}: {} characters",
                number + 1,
                line.len()
            );
            assert_eq!(line.trim_end(), line, "{path}:{}", number + 1);
        }
    }
}

/// A file that a person can open.
#[test]
fn files_of_messages_are_small() {
    for (kind, path, text) in data() {
        assert!(
            kind != Kind::Message || text.len() < 100_000,
            "{path}: {} bytes",
            text.len()
        );
    }
}

#[test]
fn every_entry_is_found_by_its_names() {
    let dictionary = Dictionary::new();
    let mut wrong = Vec::new();
    for entry in dictionary.entries() {
        for name in std::iter::once(&entry.name).chain(&entry.also) {
            for asked in [name.to_string(), name.to_uppercase()] {
                if !dictionary.find(&asked).entries.contains(&entry) {
                    wrong.push(format!("{} {}: not found as {asked}", entry.kind, entry.name));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} are not found:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A text that a longer one begins with, or that takes anything, would hide others.
#[test]
fn every_example_finds_its_entry() {
    let dictionary = Dictionary::new();
    let mut wrong = Vec::new();
    let mut log = dictionary.log();
    for (entry, examples) in examples() {
        for example in examples {
            // A frame of a trace would be a part of the message before.
            log.line(b"[12.345678] random: crng init done");
            log.line(format!("[12.345678] {example}").as_bytes());
            let met = log.met();
            let found = met.iter().find(|met| met.line == example.as_ref());
            if found.is_none_or(|met| met.entry.name != entry.name) {
                let name = found.map_or("nothing", |met| met.entry.name.as_ref());
                wrong.push(format!("{}: {example:?} is {name}", entry.name));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} examples:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Also when it is asked for.
    for (entry, examples) in examples()
        .filter(|(entry, _)| entry.kind == Kind::Message)
        .step_by(40)
    {
        assert_eq!(dictionary.find(&examples[0]).entries, [entry]);
    }
}

#[test]
fn every_reference_names_an_entry() {
    let dictionary = Dictionary::new();
    let names: HashSet<&str> = dictionary.entries().map(|entry| entry.name.as_ref()).collect();
    let lost: Vec<_> = dictionary
        .entries()
        .flat_map(|entry| entry.see.iter().map(move |see| (entry, see)))
        .filter(|(_, see)| !names.contains(see.as_ref()))
        .map(|(entry, see)| format!("{} {}: {see}", entry.kind, entry.name))
        .collect();
    assert!(
        lost.is_empty(),
        "{} lead nowhere:\n{}",
        lost.len(),
        lost.join("\n")
    );
}

#[test]
fn there_are_at_least_three_hundred_messages() {
    let dictionary = Dictionary::new();
    let messages = dictionary.entries().filter(|entry| entry.kind == Kind::Message);
    assert!(messages.count() >= 300);
}

/// A text that says next to nothing of itself matches what it should not.
#[test]
fn texts_have_a_minimum_length() {
    let dictionary = Dictionary::new();
    for entry in dictionary.entries() {
        for text in &entry.texts {
            let mut fixed: Cow<'_, str> = text.clone();
            for place in Placeholder::ALL {
                fixed = fixed.replace(&format!("{{{}}}", place.name()), "").into();
            }
            let letters = fixed
                .chars()
                .filter(|character| character.is_alphabetic())
                .count();
            assert!(letters >= 4, "{}: {text:?}", entry.name);
        }
    }
}

/// Advice is about the interface of the line, which takes the place of IFACE.
#[test]
fn advice_names_no_interface_of_an_example() {
    let dictionary = Dictionary::new();
    let mut wrong = Vec::new();
    for entry in dictionary.entries() {
        let advice = entry.causes.iter().chain(&entry.checks).chain(&entry.remedies);
        for text in advice.chain([&entry.meaning]) {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            if words.any(|word| ["eth0", "bond0", "wlan0"].contains(&word)) {
                wrong.push(format!("{} {}: {text}", entry.kind, entry.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} texts:\n{}", wrong.len(), wrong.join("\n"));
}

/// Reasons that do not say what happened.
const WITHOUT_CLASS: [&str; 3] = [
    "SKB_DROP_REASON_NOT_SPECIFIED",
    "RX_DROP_UNUSABLE",
    "RX_DROP_MONITOR",
];

#[test]
fn similar_message_is_none_of_another_driver() {
    let dictionary = Dictionary::new();
    let lines = [
        "frobnicator 0000:00:1f.0: PPM init frob failed (-110)",
        "frobnicator: resetting the frob event timeout",
        "Timed out waiting for all pending tx frobs",
    ];
    for (line, near) in lines.iter().zip(dictionary.similar_messages(&lines)) {
        let name = near.map(|entry| entry.name.to_string()).unwrap_or_default();
        assert!(
            !["ixgbe", "igb", "nvme", "brcm", "intel", "ath", "rt2x00"]
                .iter()
                .any(|driver| name.starts_with(driver)),
            "{line}: {name}"
        );
    }
}
