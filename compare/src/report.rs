//! The report, for a terminal and as a section of a document.

use crate::judgement::{Finding, Row, megabytes, milliseconds};
use crate::machine::Machine;
use std::fmt::Write;

/// The judged rows of one phase.
#[derive(Clone, Debug)]
pub struct Table {
    /// The host of this phase.
    pub title: String,
    /// Why the figures are doubtful.
    pub warning: Option<String>,
    /// Other findings, one sentence each.
    pub notes: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// All results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// The method, one sentence each.
    pub method: Vec<String>,
    /// One table per phase.
    pub tables: Vec<Table>,
}

/// Numbers of targets met, missed, and not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Met.
    pub met: usize,
    /// Missed.
    pub missed: usize,
    /// Not judged.
    pub not_judged: usize,
    /// Commands that failed.
    pub failed: usize,
}

impl Tally {
    /// Whether nothing is missed, failed or unknown, as `--strict` requires.
    pub fn is_clean(self) -> bool {
        self.missed + self.not_judged + self.failed == 0
    }

    fn line(self) -> String {
        let Self {
            met,
            missed,
            not_judged,
            failed,
        } = self;
        format!("targets: {met} met, {missed} MISSED, {not_judged} not judged; {failed} commands FAILED")
    }
}

impl Report {
    /// Counts the verdicts.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for row in self.rows() {
            tally.failed += usize::from(row.absence.as_ref().is_some_and(|why| why.starts_with("FAILED")));
            for verdict in &row.verdicts {
                match verdict.finding {
                    Finding::Met => tally.met += 1,
                    Finding::Missed => tally.missed += 1,
                    Finding::NotJudged(_) => tally.not_judged += 1,
                    Finding::Informational => {}
                }
            }
        }
        tally
    }

    /// The report as aligned text; each verdict on its own line below its command.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for line in self.machine.lines().iter().chain(&self.method) {
            put(&mut out, line);
        }
        for table in &self.tables {
            put(&mut out, "");
            put(&mut out, &table.title);
            if let Some(warning) = &table.warning {
                put(&mut out, warning);
            }
            for note in &table.notes {
                put(&mut out, note);
            }
            let mut lines = vec![HEADINGS.map(str::to_owned)];
            lines.extend(table.rows.iter().map(cells));
            let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
                lines
                    .iter()
                    .map(|cells| cells[column].chars().count())
                    .max()
                    .unwrap_or(0)
            });
            for (number, cells) in lines.iter().enumerate() {
                put(&mut out, &align(cells, &widths));
                // The first line is the heading.
                let row = number.checked_sub(1).and_then(|number| table.rows.get(number));
                for verdict in row.into_iter().flat_map(verdicts) {
                    put(&mut out, &format!("      {verdict}"));
                }
            }
        }
        put(&mut out, "");
        put(&mut out, &self.tally().line());
        out
    }

    /// The same in Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for line in self.machine.lines().iter().chain(&self.method) {
            put(&mut out, &format!("- {}", escape(line)));
        }
        for table in &self.tables {
            put(&mut out, &format!("\n### {}\n", escape(&table.title)));
            if let Some(warning) = &table.warning {
                put(&mut out, &format!("**{}**\n", escape(warning)));
            }
            for note in &table.notes {
                put(&mut out, &format!("{}\n", escape(note)));
            }
            put(&mut out, &format!("| {} | verdict |", HEADINGS.join(" | ")));
            put(
                &mut out,
                &format!("|{}---|", "---|---|---:|---:|---:|---:|---:|---:|"),
            );
            for row in &table.rows {
                let cells = cells(row).map(|cell| escape(&cell));
                let verdicts = verdicts(row)
                    .map(|verdict| escape(&verdict))
                    .collect::<Vec<_>>()
                    .join("<br>");
                put(&mut out, &format!("| {} | {verdicts} |", cells.join(" | ")));
            }
        }
        put(&mut out, &format!("\n{}.", self.tally().line()));
        out
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.tables.iter().flat_map(|table| &table.rows)
    }
}

const COLUMNS: usize = 8;
const HEADINGS: [&str; COLUMNS] = [
    "what",
    "command",
    "runs",
    "wall",
    "user + sys",
    "peak",
    "lines",
    "x floor",
];

fn cells(row: &Row) -> [String; COLUMNS] {
    let none = || "-".to_owned();
    let wall = match (&row.absence, row.wall_ns, row.wall_scatter) {
        (Some(why), _, _) => why.clone(),
        (None, Some(wall_ns), Some(scatter)) => {
            format!("{} ±{:.0} %", milliseconds(wall_ns), scatter * 100.0)
        }
        (None, Some(wall_ns), None) => milliseconds(wall_ns),
        (None, None, _) => none(),
    };
    [
        row.name.clone(),
        row.command.clone(),
        row.runs.to_string(),
        wall,
        row.cpu_ns.map_or_else(none, milliseconds),
        row.peak_bytes.map_or_else(none, megabytes),
        row.lines.map_or_else(none, |lines| lines.to_string()),
        row.to_floor.map_or_else(none, |ratio| format!("{ratio:.2}")),
    ]
}

fn verdicts(row: &Row) -> impl Iterator<Item = String> {
    row.verdicts.iter().map(|verdict| {
        let figure = verdict.figure.as_deref().unwrap_or("no figure");
        let target = &verdict.target;
        match &verdict.finding {
            Finding::Met => format!("met: {figure} (target {target})"),
            Finding::Missed => format!("MISSED: {figure} (target {target})"),
            Finding::NotJudged(why) => format!("not judged: {figure} (target {target}; {why})"),
            Finding::Informational => format!("{figure} (for information; {target})"),
        }
    })
}

/// Names to the left, figures to the right.
fn align(cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let written = match column {
            0 => write!(line, "{cell:<width$}"),
            1 => write!(line, "  {cell:<width$}"),
            _ => write!(line, "  {cell:>width$}"),
        };
        written.expect("a String takes everything");
    }
    line.trim_end().to_owned()
}

/// Escapes text from outside, so that it cannot break a table or start markup.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::Verdict;

    fn row(name: &str, finding: Option<Finding>) -> Row {
        let verdict = |finding| Verdict {
            target: "<= 1.25 x floor".to_owned(),
            figure: Some("1.50 x floor".to_owned()),
            finding,
        };
        Row {
            name: name.to_owned(),
            command: format!("{name} -n"),
            runs: 15,
            wall_ns: Some(1_500_000),
            wall_scatter: Some(0.021),
            cpu_ns: Some(1_400_000),
            peak_bytes: Some(2_048_000),
            lines: Some(7),
            to_floor: Some(1.5),
            absence: None,
            verdicts: finding.map(verdict).into_iter().collect(),
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        let machine = Machine {
            cores: 2,
            processor: Some("a | b".to_owned()),
            kernel: None,
            versions: vec![],
        };
        Report {
            machine,
            method: vec![],
            tables: vec![Table {
                title: "79200 sockets".to_owned(),
                warning: Some("DISTURBED".to_owned()),
                notes: vec!["more < less".to_owned()],
                rows,
            }],
        }
    }

    #[test]
    fn tally_counts_each_kind() {
        let mut missing = row("d", Some(Finding::NotJudged("no figures".to_owned())));
        missing.absence = Some("FAILED: exit 1".to_owned());
        let report = report(vec![
            row("a", None),
            row("b", Some(Finding::Met)),
            row("c", Some(Finding::Missed)),
            missing,
        ]);
        assert_eq!(
            report.tally(),
            Tally {
                met: 1,
                missed: 1,
                not_judged: 1,
                failed: 1
            }
        );
        assert!(!report.tally().is_clean());
        assert!(
            report
                .text()
                .ends_with("targets: 1 met, 1 MISSED, 1 not judged; 1 commands FAILED\n")
        );
    }

    #[test]
    fn text_is_aligned_and_says_what_was_missed() {
        let text = report(vec![row("a", None), row("longer", Some(Finding::Missed))]).text();
        let at = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).expect(start);
            line.split("1.50 ms").next().expect("first part").chars().count()
        };
        assert_eq!(at("a "), at("longer "));
        assert!(
            text.contains("MISSED: 1.50 x floor (target <= 1.25 x floor)"),
            "{text}"
        );
        assert!(
            text.contains("1.50 ms ±2 %") && text.contains("\nDISTURBED\n"),
            "{text}"
        );
    }

    #[test]
    fn markdown_rows_have_as_many_cells_as_the_heading() {
        let mut missing = row("x|y", None);
        missing.absence = Some("not installed".to_owned());
        let markdown = report(vec![row("a", Some(Finding::Met)), missing]).markdown();
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let counts: Vec<_> = markdown
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(cells)
            .collect();
        assert_eq!(counts, [COLUMNS + 2; 4], "{markdown}");
        assert!(markdown.contains("not installed") && markdown.contains("\nmore &lt; less\n"));
        assert!(
            markdown.contains("met: 1.50 x floor (target &lt;= 1.25 x floor)"),
            "{markdown}"
        );
    }
}
