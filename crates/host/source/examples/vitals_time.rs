//! How long it takes to read what our namespace, the host and every named namespace report, five times.
//!
//! `sockeye ns add --prefix v --count 2000`, then `cargo run --release -p sockeye-source --example vitals_time`

use sockeye_model::NetnsInode;
use sockeye_source::{OpenNetns, vitals};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

fn main() -> io::Result<()> {
    let files = fs::read_dir("/run/netns").into_iter().flatten();
    let paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    for _ in 0..5 {
        let started = Instant::now();
        let own = vitals::namespace();
        let one = started.elapsed();
        let host = vitals::host();
        let shared = started.elapsed() - one;
        let started = Instant::now();
        let all = vitals::namespaces(paths.len(), &|number, act| {
            let file = File::open(&paths[number])?;
            act(OpenNetns {
                fd: file.as_fd(),
                inode: NetnsInode(0),
                process: None,
            });
            Ok(())
        });
        let many = started.elapsed();
        println!(
            "own namespace, {} interfaces: {one:.1?}; host, {} processors: {shared:.1?}; {} namespaces, {} unreadable: {many:.1?}",
            own.devices.len(),
            host.processors.len(),
            all.len(),
            all.iter().filter(|found| found.is_err()).count(),
        );
    }
    Ok(())
}
