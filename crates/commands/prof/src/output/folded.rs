//! Folded stacks, the input of flame graph tools: `process;outer;inner_[k] 17`.

use sockeye_output::text::is_hidden;
use sockeye_profile::{Profile, StackKind, StackName};
use std::cmp::Ordering;
use std::io::{self, Write};

/// Writes a line for each stack, sorted: its frames from the outermost to the innermost, those of the kernel with the suffix
/// `_[k]`, then its weight in samples or microseconds. Writes nothing if the profile has no such stacks.
///
/// # Errors
/// Those of `out`.
pub fn write_folded(out: &mut impl Write, profile: &Profile, which: StackKind) -> io::Result<()> {
    let Some(mut named_stacks) = profile.named_stacks(which) else {
        return Ok(());
    };
    let names: Vec<Vec<u8>> = named_stacks.words.iter().map(name).collect();
    let stacks = &mut named_stacks.stacks;
    // In the order of their lines, without building the lines.
    stacks.sort_unstable_by(|one, other| compare_lines(&one.0, &other.0, &names));
    let mut line = Vec::new();
    let mut rest = stacks.as_slice();
    while let Some((stack, _)) = rest.first() {
        let same = rest
            .iter()
            .take_while(|other| compare_lines(&other.0, stack, &names) == Ordering::Equal)
            .count();
        let weight = rest[..same]
            .iter()
            .fold(0_u64, |sum, one| sum.saturating_add(one.1));
        line.clear();
        for (nth, word) in stack.iter().enumerate() {
            if nth > 0 {
                line.push(b';');
            }
            line.extend_from_slice(&names[*word as usize]);
        }
        writeln!(line, " {weight}")?;
        out.write_all(&line)?;
        rest = &rest[same..];
    }
    Ok(())
}

/// Returns a frame's name without characters that would end its line or begin another frame.
fn name(word: &StackName) -> Vec<u8> {
    let mut name = String::with_capacity(word.text.len() + 4);
    for character in word.text.chars() {
        name.push(match character {
            ';' => ':',
            _ if character.is_control() || is_hidden(character) => '?',
            _ => character,
        });
    }
    // An empty name would not be a frame.
    if name.is_empty() {
        name.push('?');
    }
    if word.is_kernel {
        name.push_str("_[k]");
    }
    name.into_bytes()
}

/// Compares two stacks like their lines, byte by byte.
fn compare_lines(one: &[u32], other: &[u32], names: &[Vec<u8>]) -> Ordering {
    let same = |(one, other): &(&u32, &u32)| one == other || names[**one as usize] == names[**other as usize];
    let common = one.iter().zip(other).take_while(same).count();
    let word = |stack: &[u32]| {
        let name = stack.get(common).map(|word| names[*word as usize].as_slice());
        (name, stack.len() > common + 1)
    };
    match (word(one), word(other)) {
        ((None, _), (None, _)) => Ordering::Equal,
        // The shorter line has a space where the other one continues.
        ((None, _), _) => Ordering::Less,
        (_, (None, _)) => Ordering::Greater,
        ((Some(one), one_goes_on), (Some(other), other_goes_on)) => {
            let end = |goes_on| if goes_on { b';' } else { b' ' };
            let one = one.iter().copied().chain([end(one_goes_on)]);
            one.cmp(other.iter().copied().chain([end(other_goes_on)]))
        }
    }
}
