//! A recorder that is killed, at any moment, again and again.

use super::Store;
use std::time::{Duration, Instant};

#[test]
fn killed_recorder_loses_at_most_the_sample_in_hand() {
    let store = Store::new("killed");
    let mut samples = 0;
    for round in 0..rounds() {
        let recorder = store.record();
        samples = store.wait_for_more_than(samples);
        // At another moment of a sample each time.
        let wait = Instant::now();
        while wait.elapsed() < Duration::from_micros(1_050 * u64::from(round % INTERVAL_MS)) {
            std::hint::spin_loop();
        }
        drop(recorder);
        let after = store.samples();
        assert!(
            after >= samples,
            "round {round}: {after} of {samples} samples are left"
        );
        samples = after;
        store.succeed("flows --at now --format json");
    }
    let list = store.rows("history list");
    assert!(list.iter().any(|row| row["gap"] == "not-running"), "{list:?}");
}

/// How often it is killed: `SOCKEYE_KILLS=1000` takes some minutes.
fn rounds() -> u32 {
    let asked = std::env::var("SOCKEYE_KILLS").ok();
    asked.map_or(50, |text| text.parse().expect("SOCKEYE_KILLS is a number"))
}

/// The interval of [`Store::record`].
const INTERVAL_MS: u32 = 50;
