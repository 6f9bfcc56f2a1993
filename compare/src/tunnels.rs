//! `bench tun`: the gain by offload, and the forwarder's rate compared with the bare veth pair.

use crate::entry::Program;
use crate::judgement::Row;
use crate::network::{Bound, HostPair, Rows, number_after, row, verdict_against};
use crate::run::Installed;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Measures tunnels with some queue lengths; the program itself repeats them in turn.
pub fn measured(installed: &Installed, hosts: &HostPair, seconds: f64, repeats: usize) -> Rows {
    let arguments =
        format!("bench tun --json --queues 500,1000 --multi-queue 1 -d {seconds} --repeats {repeats}");
    let row = Row {
        runs: repeats,
        ..row("bench tun".to_owned(), format!("sockeye {arguments}"))
    };
    let Some(path) = installed.path(Program::Sockeye) else {
        let absence = Some("not installed".to_owned());
        return Rows {
            rows: vec![Row { absence, ..row }],
            notes: Vec::new(),
        };
    };
    let found = tunnel(hosts, &path, &arguments, seconds * repeats as f64);
    let (rates, cpu_ns) = match &found {
        Ok((rates, cpu_ns)) => (Some(*rates), Some(*cpu_ns)),
        Err(_) => (None, None),
    };
    let compared = |of: fn(&Rates) -> f64| rates.as_ref().map(of).filter(|found| found.is_finite());
    let notes = rates.map(|rates| {
        let gbit = |bytes_per_s: f64| bytes_per_s * 8e-9;
        format!(
            "bare veth {:.1} Gbit/s, with offload {:.1} Gbit/s, without {:.2} Gbit/s (the better queue of each)",
            gbit(rates.bare),
            gbit(rates.with),
            gbit(rates.without)
        )
    });
    let row = Row {
        cpu_ns,
        absence: found.err().map(|error| format!("FAILED: {error:#}")),
        verdicts: vec![
            verdict_against(
                "with offload",
                compared(|rates| rates.with / rates.without),
                "without",
                Bound::AtLeast(5.0),
            ),
            verdict_against(
                "with offload",
                compared(|rates| rates.with / rates.bare),
                "bare veth",
                Bound::AtLeast(0.6),
            ),
        ],
        ..row
    };
    Rows {
        rows: vec![row],
        notes: notes.into_iter().collect(),
    }
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    bare: f64,
    with: f64,
    without: f64,
}

fn tunnel(hosts: &HostPair, path: &Path, arguments: &str, seconds: f64) -> Result<(Rates, u64)> {
    let words: Vec<&str> = arguments.split(' ').collect();
    // A few points, with time to prepare each.
    let timeout = Duration::from_secs_f64(60.0 + 10.0 * seconds);
    let output = hosts.start(&hosts.near, timeout, path, &words)?.wait()?;
    let rates = rates(&output.text).context("its output lacks veth, or tun with and without offload")?;
    Ok((rates, output.cpu_ns))
}

fn rates(text: &str) -> Option<Rates> {
    let points: Vec<&str> = text.split("{\"path\":").skip(1).collect();
    let best = |sign: &dyn Fn(&&str) -> bool| {
        let of = points.iter().copied().filter(sign);
        of.filter_map(|point| number_after(point, "", "\"bytes_per_s\""))
            .reduce(f64::max)
    };
    Some(Rates {
        bare: best(&|point| point.starts_with("\"veth\""))?,
        with: best(&|point| point.contains("\"offload\":\"on\""))?,
        without: best(&|point| point.contains("\"offload\":\"off\""))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_by_kind() {
        let text = r#"{"points":[{"path":"veth","streams":1,"bytes_per_s":300.5},
            {"path":"tun","offload":"off","bytes_per_s":20},{"path":"tun","offload":"off","bytes_per_s":30.0},
            {"path":"tun","offload":"on","bytes_per_s":250,"min_bytes_per_s":1}]}"#;
        let found = Rates {
            bare: 300.5,
            with: 250.0,
            without: 30.0,
        };
        assert_eq!(rates(text), Some(found));
        assert_eq!(rates("nothing"), None);
    }
}
