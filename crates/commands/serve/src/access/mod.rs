//! Who may read: the names under which this server answers, its one-time URLs, its secret, and the cookies that follow from both.

pub(crate) mod certificate;
mod gate;
mod origin;
mod secret;
mod token;

pub(crate) use gate::{Gate, Head, Verdict};
pub(crate) use origin::Origin;
pub(crate) use secret::Secret;
