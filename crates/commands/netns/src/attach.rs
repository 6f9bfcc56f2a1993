//! `sockeye ns attach` and `ns set`: a name and an nsid for an existing namespace.

use crate::args::{AttachArgs, SetArgs};
use crate::guard::Guard;
use crate::names;
use crate::workers::explained;
use sockeye_act::netns::{Folder, Maker, number};
use sockeye_model::Pid;

pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<()> {
    let name = names::new(args.name.clone())?;
    let folder = Folder::prepare().map_err(|error| explained(&error))?;
    let guard = Guard::start(false);
    let made = Maker::new(&folder, guard.slot(0)).attach(&name, Pid(args.pid));
    made.map(drop).map_err(|error| explained(&error))
}

pub(crate) fn set(args: &SetArgs) -> anyhow::Result<()> {
    let name = names::existing(&args.name)?;
    number(&name, args.id.0).map_err(|error| explained(&error))
}
