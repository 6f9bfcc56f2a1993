//! The items of two profiles, made comparable.

use super::part::{Amount, Part, Words};
use crate::profile::Profile;
use std::collections::BTreeMap;

/// An item in both profiles.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) words: Words,
    is_share: bool,
    pub(super) a: Option<Amount>,
    pub(super) b: Option<Amount>,
}

impl Row {
    pub(super) fn change_ns(&self) -> f64 {
        self.b.map_or(0.0, |one| one.amount) - self.a.map_or(0.0, |one| one.amount)
    }

    pub(super) fn change_count(&self) -> f64 {
        self.b.map_or(0.0, |one| one.count) - self.a.map_or(0.0, |one| one.count)
    }

    pub(super) fn changed(&self) -> bool {
        self.change_ns() != 0.0 || (!self.is_share && self.change_count() != 0.0)
    }
}

/// Factors that make both comparable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) is_rate: bool,
    pub(super) a: f64,
    pub(super) b: f64,
}

impl Scale {
    pub(super) fn of(a: &Profile, b: &Profile) -> Self {
        let seconds = |profile: &Profile| profile.duration_ns as f64 / 1e9;
        let (a_seconds, b_seconds) = (seconds(a), seconds(b));
        // The durations of two runs of ten seconds differ slightly.
        let differ = (a_seconds - b_seconds).abs() > a_seconds.max(b_seconds) * SAME_DURATION;
        let is_rate = a_seconds > 0.0 && b_seconds > 0.0 && differ && !(is_whole(a) && is_whole(b));
        let per = |seconds: f64| if is_rate { 1.0 / seconds } else { 1.0 };
        Self {
            is_rate,
            a: per(a_seconds),
            b: per(b_seconds),
        }
    }
}

/// Whether all observed processes began and ended meanwhile, as with a command: such runs are compared as a
/// whole, because rates would hide that one is slower.
pub(super) fn is_whole(profile: &Profile) -> bool {
    !profile.processes.is_empty()
        && profile
            .processes
            .iter()
            .all(|process| process.began && process.ended)
}

pub(super) fn compared(
    part: Part,
    a: BTreeMap<Words, Amount>,
    mut b: BTreeMap<Words, Amount>,
    scale: &Scale,
) -> Vec<Row> {
    // Shares need no scaling.
    let [of_a, of_b] = match part {
        Part::Cpu => [1.0; 2],
        _ => [scale.a, scale.b],
    };
    let scaled = |amount: Amount, by: f64| Amount {
        amount: amount.amount * by,
        count: amount.count * by,
    };
    let row = |words: Words, a: Option<Amount>, b: Option<Amount>| Row {
        words,
        is_share: part == Part::Cpu,
        a: a.map(|amount| scaled(amount, of_a)),
        b: b.map(|amount| scaled(amount, of_b)),
    };
    let mut rows: Vec<Row> = Vec::with_capacity(a.len() + b.len());
    for (words, amount) in a {
        let other = b.remove(&words);
        rows.push(row(words, Some(amount), other));
    }
    rows.extend(
        b.into_iter()
            .map(|(words, amount)| row(words, None, Some(amount))),
    );
    rows
}

/// Durations differ if they do by more than this part
const SAME_DURATION: f64 = 0.05;
