//! How fast packets are read and decoded: `cargo run --release -p sockeye-source --example capture_time FILE`.

use sockeye_source::capture::Capture;
use sockeye_wire::packet::Decoded;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file?")?;
    for round in 0..5 {
        let begin = Instant::now();
        let mut capture = Capture::open(path.as_ref())?;
        let (mut segments, mut others, mut broken, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
        while let Some(packet) = capture.next()? {
            match packet.decode() {
                Ok(Decoded::Segment(segment)) => {
                    segments += 1;
                    bytes += u64::from(segment.payload_len) + u64::from(segment.window & 1);
                }
                Ok(_) => others += 1,
                Err(_) => broken += 1,
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "round {round}: {} packets in {seconds:.3} s, {:.2} M/s; {segments} segments, {others} others, {broken} broken, {bytes} bytes",
            capture.packets(),
            capture.packets() as f64 / seconds / 1e6
        );
    }
    Ok(())
}
