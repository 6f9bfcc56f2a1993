//! Findings of `check`, as they come and go.

use super::clock;
use super::drops::say_of_sample;
use super::presence::Presences;
use super::rows::{About, Rows};
use super::sink::Totals;
use crate::output::records::{FindingRow, Findings};
use crate::state::Plan;
use sockeye_model::counted;
use sockeye_output::Style;
use sockeye_output::listing::{Column, all_columns};
use sockeye_query::drops::DropObserver;
use sockeye_query::findings::{FindingOptions, FindingSampler, FindingText, RemedyAccess, RuleSelection};
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_verdict::{Finding, Severity, Subject};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

/// What takes samples of findings.
pub(crate) struct FindingView<'a> {
    sampler: FindingSampler<'a>,
    presences: Presences<String, Finding>,
    /// Why drops are not watched; empty if they are.
    unseen: String,
    begun: Instant,
    has_sample: bool,
}

impl<'a> FindingView<'a> {
    pub(crate) fn new(listing: &'a Listing<'a>, plan: &Plan) -> Self {
        let rules = RuleSelection::new(None, None, &[], Severity::Notice);
        let options = FindingOptions {
            is_repeated: true,
            is_filtered: !plan.filter.is_empty(),
            second_look: Duration::ZERO,
        };
        let drops = DropObserver::begin(&listing.context.engine);
        let unseen = drops.as_ref().err().map_or_else(String::new, |error| {
            format!("findings about drops do not name whom they hit: {error}")
        });
        Self {
            sampler: FindingSampler::new(listing, rules, options, drops.ok()),
            unseen,
            presences: Presences::default(),
            begun: Instant::now(),
            has_sample: false,
        }
    }

    /// Returns the columns of the table.
    pub(crate) fn columns(listing: &Listing<'_>) -> Vec<&'static Column<Findings>> {
        let are_many = listing.context.namespaces.are_many();
        all_columns::<Findings>()
            .filter(|column| are_many || column.name != "netns")
            .collect()
    }

    /// Takes a sample.
    pub(crate) fn take(
        &mut self,
        listing: &Listing<'_>,
        rows: &mut impl Rows<Findings>,
        report: &mut ListingReport,
    ) -> anyhow::Result<Totals> {
        say_of_sample(&self.unseen, !self.has_sample);
        let sample = self.sampler.sample(report)?;
        let now = self.begun.elapsed();
        // The first of several has nothing to compare with, and no result.
        if !std::mem::replace(&mut self.has_sample, true) {
            return Ok(Totals {
                text: "the first result comes with the next sample".to_owned(),
                ..Totals::default()
            });
        }
        let there = sample
            .findings
            .into_iter()
            .map(|finding| (key(&finding), finding));
        self.presences.update(now, there);
        for one in self.presences.iter() {
            let (presence, since) = one.at(now);
            let row = FindingRow {
                names: listing.context,
                finding: &one.thing,
                presence,
                since,
            };
            let heading = || {
                let since = since.as_secs();
                let apart = sample.checked.interval_ms.unwrap_or(0) as f64 / 1000.0;
                match presence {
                    "gone" => format!("{} gone for {since} s; as it was seen last", clock()),
                    _ => format!(
                        "{} {presence}, for {since} s; judged over the last {apart:.1} s",
                        clock()
                    ),
                }
            };
            rows.add(&row, &|| About {
                text: Some(self.text(listing, &heading(), &one.thing)),
                ..about(&one.thing)
            })?;
        }
        let gaps = sample.checked.not_judged.iter().map(|gap| gap.text.as_str());
        let gaps: Vec<&str> = gaps.collect();
        Ok(Totals {
            text: if gaps.is_empty() {
                counted(sample.checked.rules as u64, "rule")
            } else {
                format!(
                    "{}; not judged: {}",
                    counted(sample.checked.rules as u64, "rule"),
                    gaps.join("; ")
                )
            },
            ..Totals::default()
        })
    }

    /// Returns a finding in full: its evidence as of its last sample, not another run of the rule.
    fn text(&self, listing: &Listing<'_>, heading: &str, finding: &Finding) -> Box<str> {
        let text = FindingText {
            style: Style::Plain,
            width: None,
            limits: &self.sampler.rules().limits,
            remedy_access: &RemedyAccess::find(std::slice::from_ref(finding), listing.context),
        };
        let mut out = format!("{heading}\n\n").into_bytes();
        text.push(&mut out, finding, listing.context);
        String::from_utf8_lossy(&out).into()
    }
}

/// What makes two findings the same.
fn key(finding: &Finding) -> String {
    let owner = finding.owner.map(|owner| owner.pid.0);
    format!(
        "{:?} {:?} {:?} {owner:?}",
        finding.rule, finding.netns, finding.subject
    )
}

fn about(finding: &Finding) -> About {
    let mut hasher = DefaultHasher::new();
    key(finding).hash(&mut hasher);
    About {
        id: hasher.finish(),
        explained: match finding.subject {
            Subject::Counter(counter) => Some(counter.to_string().into()),
            _ => None,
        },
        ..About::default()
    }
}
