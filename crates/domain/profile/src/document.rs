//! A profile in JSON for programs: one document, or one line per row.

use crate::profile::Profile;
use crate::{gaps, judge};
use serde::Serialize;
use sockeye_measure::{Report, Sentence};

impl Profile {
    /// Conclusions, and what the profile does not show.
    #[must_use]
    pub fn sentences(&self) -> Vec<Sentence> {
        let mut report = Report::of("prof", "prof");
        judge::judge(self, &mut report);
        gaps::add_gaps(self, &mut report);
        report.sentences
    }

    /// The JSON of [`Profile::to_json`] with its conclusions.
    #[must_use]
    pub fn to_document(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            profile: &'a Profile,
            sentences: Vec<Conclusion>,
        }
        line(&Document {
            profile: self,
            sentences: conclusions(self),
        })
    }

    /// One line of JSON per row of each table; rows of frames have their index as `place`. The last line has
    /// everything else.
    #[must_use]
    pub fn to_lines(&self) -> String {
        #[derive(Serialize)]
        struct Row<'a, T> {
            table: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            place: Option<usize>,
            #[serde(flatten)]
            row: &'a T,
        }
        #[derive(Serialize)]
        struct Last {
            summary: Summary,
        }
        fn push<T: Serialize>(out: &mut String, table: &'static str, rows: &[T]) {
            for (nth, row) in rows.iter().enumerate() {
                let place = (table == "frames").then_some(nth);
                out.push_str(&line(&Row { table, place, row }));
            }
        }
        let mut out = String::new();
        push(&mut out, "processes", &self.processes);
        push(&mut out, "syscalls", self.syscalls.as_deref().unwrap_or_default());
        let functions = self.functions.as_ref();
        push(
            &mut out,
            "functions",
            functions.map_or(&[][..], |functions| &functions.calls),
        );
        push(&mut out, "frames", &self.frames);
        push(&mut out, "waits", self.waits.as_deref().unwrap_or_default());
        let stacks = self.cpu.as_ref().map_or(&[][..], |cpu| &cpu.stacks);
        push(&mut out, "cpu_stacks", stacks);
        out.push_str(&line(&Last {
            summary: Summary::of(self),
        }));
        out
    }
}

/// Everything but the rows.
#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    profile: serde_json::Map<String, serde_json::Value>,
    sentences: Vec<Conclusion>,
}

impl Summary {
    fn of(profile: &Profile) -> Self {
        // A copy without the rows, which may be many.
        let rest = Profile {
            schema_version: profile.schema_version,
            target: profile.target.clone(),
            duration_ns: profile.duration_ns,
            processors: profile.processors,
            cpu: profile.cpu.as_ref().map(|cpu| crate::profile::Cpu {
                stacks: Vec::new(),
                samples_per_s: cpu.samples_per_s,
                samples: cpu.samples,
                kernel_samples: cpu.kernel_samples,
                cut_stacks: cpu.cut_stacks,
                user_only: cpu.user_only,
                ready_ns: cpu.ready_ns,
            }),
            functions: profile
                .functions
                .as_ref()
                .map(|functions| crate::profile::Functions {
                    calls: Vec::new(),
                    overhead_ns_per_call: functions.overhead_ns_per_call,
                    watched: functions.watched,
                    calls_of_others: functions.calls_of_others,
                    means: functions.means.clone(),
                }),
            losses: profile.losses.clone(),
            missing: profile.missing.clone(),
            partial: profile.partial.clone(),
            ..Profile::default()
        };
        let mut fields = match serde_json::to_value(rest) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        for (part, rows) in [("cpu", "stacks"), ("functions", "calls")] {
            if let Some(serde_json::Value::Object(part)) = fields.get_mut(part) {
                part.remove(rows);
            }
        }
        // The line itself has it.
        fields.remove("schema_version");
        fields.remove("processes");
        fields.remove("frames");
        Self {
            profile: fields,
            sentences: conclusions(profile),
        }
    }
}

#[derive(Serialize)]
struct Conclusion {
    code: &'static str,
    text: String,
    remedies: Vec<String>,
}

fn conclusions(profile: &Profile) -> Vec<Conclusion> {
    let sentences = profile.sentences().into_iter();
    sentences
        .map(|sentence| Conclusion {
            code: sentence.code,
            text: sentence.text,
            remedies: sentence.remedies,
        })
        .collect()
}

fn line(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).expect("its keys are strings");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cpu, CpuStack, Frame, Process};

    #[test]
    fn document_parses_as_profile() {
        let profile = Profile {
            schema_version: 1,
            target: "pid 7".to_owned(),
            duration_ns: 1_000_000_000,
            cpu: Some(Cpu {
                samples: 10,
                samples_per_s: 99,
                stacks: vec![CpuStack {
                    pid: 7,
                    stack: vec![0],
                    samples: 10,
                }],
                ..Cpu::default()
            }),
            frames: vec![Frame::default()],
            processes: vec![Process::default()],
            ..Profile::default()
        };
        let text = profile.to_document();
        assert!(
            text.contains("\"sentences\":[{\"code\":\"where-time-went\""),
            "{text}"
        );
        assert_eq!(Profile::from_json(text.as_bytes()).unwrap(), profile);
        let text = profile.to_lines();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1], "{\"table\":\"frames\",\"place\":0,\"space\":\"user\"}");
        assert_eq!(
            lines[2],
            "{\"table\":\"cpu_stacks\",\"pid\":7,\"stack\":[0],\"samples\":10}"
        );
        assert!(lines[3].starts_with("{\"summary\":{"));
        assert!(!lines[3].contains("\"stacks\":["), "{text}");
    }
}
