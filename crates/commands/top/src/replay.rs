//! `sockeye history replay`: the screen over recorded time.

use crate::args::TopArgs;
use crate::run::show;
use crate::sample::{Origin, Replay, context, words};
use crate::state::Plan;
use crate::state::playback::Playback;
use crate::state::view::View;
use anyhow::Context;
use clap::{Args as _, Command, FromArgMatches as _};
use sockeye_console::live;
use sockeye_console::usage::UsageError;
use sockeye_filter::join_words;
use sockeye_query::args::ReplayArgs;
use sockeye_query::listing::Listing;
use sockeye_query::past;
use sockeye_store::{StoreReader, Toward};
use std::sync::Arc;

/// Plays recorded time on the screen.
///
/// # Errors
/// If an option is wrong, nothing is recorded, or there is no screen.
pub fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    let store = past::open_store(args.store.as_deref())?;
    let at_ms = match &args.at {
        Some(at) => past::moment_at(&store, at, "--at")?.at_ms,
        None => store
            .next_sample(0, Toward::Future)?
            .context("nothing is recorded yet")?,
    };
    if !live::has_screen() {
        let text = "sockeye: history replay needs a terminal; `sockeye flows --at TIME` prints one moment\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let screen = screen_args(args)?;
    let plan = Plan {
        view: View::Flows,
        group_by: screen.group_by,
        filter: join_words(&args.filter),
        order: View::Flows.order(),
        interval: screen.watch,
        watched: None,
        playback: Some(Playback::new()),
    };
    // A filter that is wrong from the start is an error of usage, before the screen is taken.
    let mut context = context(&screen, &plan)?;
    context.set_moment(past::moment(&store, at_ms)?);
    if let Err(error) = context.check_netns()
        && !has_netns_later(&store, at_ms, args)?
    {
        return Err(error);
    }
    Listing::new(&screen.common, &words(&plan), None, &context)?;
    drop(context);
    let replay = Replay {
        store,
        at_ms,
        speed: args.speed,
    };
    show(Arc::new(screen), plan, Origin::Store(replay))
}

/// Whether the network namespace that `--netns` names came after a time, in milliseconds since 1970: it may be waited for.
fn has_netns_later(store: &StoreReader, at_ms: u64, args: &ReplayArgs) -> anyhow::Result<bool> {
    let names = store.netns_names_within((at_ms, i64::MAX.unsigned_abs()))?;
    let mut names = names.values().flatten();
    Ok(names.any(|name| Some(name) == args.netns.as_ref()))
}

/// Returns the arguments of the screen: its defaults, and what was chosen.
fn screen_args(args: &ReplayArgs) -> anyhow::Result<TopArgs> {
    let matches = TopArgs::augment_args(Command::new("top")).try_get_matches_from(["top"])?;
    let mut screen = TopArgs::from_arg_matches(&matches)?;
    screen.common.netns.clone_from(&args.netns);
    screen.common.color = args.color;
    Ok(screen)
}
