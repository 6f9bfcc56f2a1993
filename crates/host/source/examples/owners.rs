//! Times the owner look-up: `cargo run --release -p sockeye-source --example owners [THREADS]`.

use sockeye_source::owners::{Owners, ScanOptions};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ScanOptions::default();
    if let Some(threads) = std::env::args().nth(1) {
        options.threads = threads.parse()?;
    }
    for _ in 0..5 {
        let start = Instant::now();
        let owners = Owners::scan(&options)?;
        let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        let losses = owners.losses();
        println!(
            "{elapsed_ms:8.1} ms  {} processes, {} descriptors, {} of sockets; {} unreadable, {} vanished",
            owners.processes(),
            owners.descriptors(),
            owners.socket_descriptors(),
            losses.unreadable_processes,
            losses.vanished_processes,
        );
    }
    Ok(())
}
