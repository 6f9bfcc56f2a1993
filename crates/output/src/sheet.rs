//! CSV of a whole table, for outputs that are not listings of records: findings, explanations, figures.

use crate::csv::{Line, push_filled};
use crate::envelope::Envelope;

/// A whole table whose rows are few: the time and the host come first, and columns that no row fills are left out.
///
/// ```
/// use sockeye_output::Envelope;
/// use sockeye_output::sheet::Sheet;
///
/// let mut out = Vec::new();
/// let mut sheet = Sheet::begin(&mut out, &Envelope::default(), false, "rule,netns,pid");
/// let mut line = sheet.line();
/// line.word("time-wait");
/// line.empty(1);
/// line.number(Some(7_u32));
/// line.end();
/// sheet.end();
/// assert_eq!(out, b"time,rule,pid\r\n1970-01-01T00:00:00.000000Z,time-wait,7\r\n");
/// ```
#[derive(Debug)]
pub struct Sheet<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    leaves_out_empty: bool,
    /// The first fields of each line.
    constants: Vec<u8>,
}

impl<'a> Sheet<'a> {
    /// Begins a table with these columns at the end of `out`. Without a header line all columns stay: then only their
    /// places say what they are.
    pub fn begin(out: &'a mut Vec<u8>, envelope: &Envelope, no_header: bool, columns: &str) -> Self {
        Self::begin_sample(out, envelope, None, no_header, columns)
    }

    /// Begins the table of a sample with a number, which is a column before the others. Tables without a header follow: all
    /// columns stay.
    pub fn begin_sample(
        out: &'a mut Vec<u8>,
        envelope: &Envelope,
        sample: Option<u64>,
        no_header: bool,
        columns: &str,
    ) -> Self {
        let start = out.len();
        if !no_header {
            out.extend_from_slice(envelope.csv_header().as_bytes());
            out.push(b',');
            if sample.is_some() {
                out.extend_from_slice(b"sample,");
            }
            out.extend_from_slice(columns.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        let mut constants = envelope.csv_fields();
        if let Some(sample) = sample {
            constants.push(b',');
            constants.extend_from_slice(sample.to_string().as_bytes());
        }
        Self {
            out,
            start,
            leaves_out_empty: !no_header && sample.is_none(),
            constants,
        }
    }

    /// Begins a line.
    pub fn line(&mut self) -> Line<'_> {
        let mut line = Line::begin(self.out);
        line.constants(&self.constants);
        line
    }

    /// Ends the table.
    pub fn end(self) {
        if self.leaves_out_empty {
            let text = self.out.split_off(self.start);
            push_filled(self.out, &text);
        }
    }
}
