//! The cheapest possible dump of this host's TCP sockets; prints how many there are.

use sockeye_bench::floor::{Request, dump};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut request = Request::default();
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--v2") => request.v2 = true,
            Some("--info") => request.info = true,
            _ => {
                eprintln!("usage: bench-floor [--v2] [--info]");
                return ExitCode::from(2);
            }
        }
    }
    match dump(request) {
        Ok(count) => {
            if count.interrupted > 0 {
                eprintln!("bench-floor: the table changed during the dump; the count is approximate");
            }
            println!("{}", count.records);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-floor: {error}");
            ExitCode::FAILURE
        }
    }
}
