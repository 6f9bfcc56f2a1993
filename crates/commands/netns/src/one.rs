//! `sockeye ns attach` and `ns set`: what is done for one name.

use super::guard::Guard;
use super::workers::explained;
use clap::Args;
use sockeye_act::netns::{Folder, Maker, number};
use sockeye_model::Pid;
use std::ffi::OsString;

/// Give a name to the network namespace that a process is in
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The name
    #[arg(value_name = "NAME")]
    name: OsString,
    /// The process
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = pid)]
    pid: u32,
}

/// Give a network namespace a number in ours, by which the kernel names it in messages to us
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: OsString,
    /// The number, 0 or more; auto: the lowest that is free
    #[arg(value_name = "ID|auto", allow_negative_numbers = true, value_parser = id)]
    id: Id,
}

/// `None`: the kernel chooses.
#[derive(Debug, Clone, Copy)]
struct Id(Option<i32>);

pub(super) fn attach(args: &AttachArgs) -> anyhow::Result<()> {
    let name = super::new_name(args.name.clone())?;
    let folder = Folder::prepare().map_err(|failure| explained(&failure))?;
    let guard = Guard::start(false);
    let made = Maker::new(&folder, guard.slot(0)).attach(&name, Pid(args.pid));
    made.map(drop).map_err(|failure| explained(&failure))
}

pub(super) fn set(args: &SetArgs) -> anyhow::Result<()> {
    let name = super::existing(&args.name)?;
    number(&name, args.id.0).map_err(|failure| explained(&failure))
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text
        .parse()
        .ok()
        .filter(|pid| *pid > 0 && i32::try_from(*pid).is_ok());
    pid.ok_or_else(|| "expected the number of a process".to_owned())
}

fn id(text: &str) -> Result<Id, String> {
    if text == "auto" {
        return Ok(Id(None));
    }
    let id = text.parse().ok().filter(|id| *id >= 0);
    id.map(|id| Id(Some(id)))
        .ok_or_else(|| format!("expected a number of 0 to {}, or auto", i32::MAX))
}
