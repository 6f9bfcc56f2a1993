//! How long the queries of a BPF engine take on a BTF blob: `btf_time [FILE]`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the crate is pure, its examples are not

use sockeye_wire::btf::{Btf, Query};
use std::time::Instant;

#[path = "../src/tests/btf_queries/mod.rs"]
mod btf_queries;

const RUNS: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or("/sys/kernel/btf/vmlinux".into());
    let started = Instant::now();
    let bytes = std::fs::read(&path)?;
    println!(
        "{path}: {} bytes, read in {} us",
        bytes.len(),
        started.elapsed().as_micros()
    );
    let all = btf_queries::all();
    let without = |kind: fn(&Query<'_>) -> bool| all.iter().copied().filter(|query| !kind(query)).collect();
    let sets: [(&str, Vec<Query<'_>>); 3] = [
        ("all", all.clone()),
        (
            "without enumerators of any enum",
            without(|query| {
                matches!(
                    query,
                    Query::Enumerator {
                        enumeration: None,
                        ..
                    }
                )
            }),
        ),
        ("none (the pass alone)", Vec::new()),
    ];
    for (what, queries) in sets {
        let mut times_us = Vec::with_capacity(RUNS);
        let mut answered = 0;
        for _ in 0..RUNS {
            let started = Instant::now();
            let answers = Btf::parse(&bytes)?.answer(&queries)?;
            times_us.push(started.elapsed().as_micros());
            answered = answers.iter().flatten().count();
        }
        let first = times_us[0];
        times_us.sort_unstable();
        println!(
            "{what}: {} queries, {answered} answered: first {first} us, least {} us, median {} us",
            queries.len(),
            times_us[0],
            times_us[RUNS / 2],
        );
    }
    Ok(())
}
