//! Findings with their evidence and remedies, and the list of rules.

mod csv;
mod json;
mod rules;
mod text;
mod victims;

pub(crate) use rules::push_rules;
use sockeye_model::{Endpoint, Names, Protocol, Socket, State};
use sockeye_output::Envelope;
use sockeye_output::format::{Format, Style, Summary};
use sockeye_output::json::{Object, push_summary_fields};
use sockeye_query::findings::{CheckedScope, RemedyAccess};
use sockeye_verdict::{Finding, Limits};

/// How findings are written.
#[derive(Debug, Clone, Default)]
pub struct FindingsLayout {
    /// Output format.
    pub format: Format,
    /// Colours of the text.
    pub style: Style,
    /// Width of the terminal; `None`: not a terminal, nothing is wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of CSV.
    pub no_header: bool,
    /// Number of the sample, from 1; `None` if there is only one.
    pub sample: Option<u64>,
    /// Time of the sample and origin, for JSON and CSV.
    pub envelope: Envelope,
    /// The thresholds that it was judged with.
    pub limits: Limits,
    /// How remedies can be run in the namespaces of the findings.
    pub remedy_access: RemedyAccess,
}

/// Appends findings, in the given order, and what was checked.
pub fn push_findings(
    out: &mut Vec<u8>,
    findings: &[Finding],
    checked: &CheckedScope,
    summary: &Summary<'_>,
    layout: &FindingsLayout,
    names: &dyn Names,
) {
    match layout.format {
        Format::Table => text::push(out, findings, checked, layout, names),
        Format::Json => {
            let mut document = Object::begin(out);
            layout.envelope.push(&mut document, "check");
            document.number("sample", layout.sample);
            let list = document.key("findings");
            list.push(b'[');
            for (nth, finding) in findings.iter().enumerate() {
                if nth > 0 {
                    list.push(b',');
                }
                let mut object = Object::begin(list);
                object.number("sample", layout.sample);
                json::push_fields(&mut object, finding, layout, names);
                object.end();
            }
            list.push(b']');
            json::push_checked(&mut document, checked);
            push_summary_fields(&mut document, summary);
            document.end();
            out.push(b'\n');
        }
        Format::Jsonl => {
            for finding in findings {
                let mut object = Object::begin(out);
                layout.envelope.push(&mut object, "finding");
                object.number("sample", layout.sample);
                json::push_fields(&mut object, finding, layout, names);
                object.end();
                out.push(b'\n');
            }
            // Also without findings: what was checked.
            layout.envelope.push_summary_line(out, "check", |line| {
                line.number("sample", layout.sample);
                json::push_checked(line, checked);
                push_summary_fields(line, summary);
            });
        }
        Format::Csv => csv::push(out, findings, layout, names),
    }
}

/// Returns a socket with only a local endpoint.
fn end(local: Endpoint) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    socket.local = local;
    socket
}
