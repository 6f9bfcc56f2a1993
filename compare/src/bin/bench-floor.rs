//! The cheapest possible dump of this host's TCP sockets; prints their number. Or the cheapest creation of
//! namespaces.

use sockeye_compare::floor::{Request, dump};
use sockeye_compare::namespaces::make_named;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = words
        .iter()
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    if let ["--make-namespaces", prefix, count] = words[..] {
        return match count.parse() {
            Ok(count) => make_namespaces(prefix, count),
            Err(_) => usage(),
        };
    }
    let mut request = Request::default();
    for word in words {
        match word {
            "--v2" => request.v2 = true,
            "--info" => request.info = true,
            _ => return usage(),
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

/// Creates them one after another on this thread, without checks and without cleaning up.
fn make_namespaces(prefix: &str, count: usize) -> ExitCode {
    for number in 0..count {
        if let Err(error) = make_named(&format!("{prefix}{number}")) {
            eprintln!("bench-floor: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: bench-floor [--v2] [--info]\n       bench-floor --make-namespaces PREFIX COUNT");
    ExitCode::from(2)
}
