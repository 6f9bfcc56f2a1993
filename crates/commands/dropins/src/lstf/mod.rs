//! `sockeye lstf`: host flows as lstf 0.7.2 (`github.com/yuuki/lstf`) shows them. `docs/dropins/lstf.md` describes what is
//! the same, what is not, and why.

mod options;
mod plan;
mod run;

pub(crate) use run::run;
