//! The documents that the page reads: `docs/schema/serve.schema.json`. Downloads are those of `flows`, `sockets` and `check`.

mod events;
mod findings;
mod fleet;
mod flows;
mod map;
mod moments;

pub(crate) use events::{KEEP_ALIVE, event};
pub(crate) use findings::push_recorded_findings;
pub(crate) use fleet::push_fleet_map;
pub(crate) use flows::{FlowsPage, push_csv, push_document, push_page};
pub(crate) use map::push_map;
pub(crate) use moments::{MomentsPage, push_moments, push_step, push_timeline};
