//! The server, and the rows of its answers.

use crate::args::CommonArgs;
use anyhow::{Context, bail};
use sockeye_clickhouse::Server;
use sockeye_console::server_args::ServerArgs;
use sockeye_console::usage::UsageError;
use sockeye_fleet::question::{self, Answer, Question};
use sockeye_http::Target;

/// Returns the server that options name.
pub(super) fn server(args: &ServerArgs) -> anyhow::Result<Server> {
    let target =
        Target::parse(&args.url).map_err(|error| UsageError(format!("sockeye: --url: {error}\n")))?;
    let password = args.password()?;
    let tls = args.tls.client(&target)?;
    let server = Server::new(target, tls, &args.database, &args.user, password.as_deref());
    server.map_err(|error| UsageError(format!("sockeye: {error}\n")).into())
}

pub(super) fn ask<A: Answer>(args: &CommonArgs, question: &Question) -> anyhow::Result<Vec<A>> {
    let server = server(&args.server)?;
    let answer = match server.query(&question.sql, &question.parameters) {
        Ok(answer) => answer,
        Err(error) if error.is_missing() => {
            bail!(
                "{}: {error}: `sockeye fleet schema --apply` creates the tables",
                server.target()
            )
        }
        Err(error) => return Err(error).with_context(|| server.target().to_string()),
    };
    question::read_rows(&answer)
        .with_context(|| format!("{}: this is no answer of ClickHouse", server.target()))
}
