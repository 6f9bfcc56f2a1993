//! The server, and the rows of its answers.

use crate::args::CommonArgs;
use anyhow::Context;
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
        Err(error) => {
            let hint = if error.is_missing() {
                ": `sockeye fleet schema --apply` creates the tables"
            } else {
                ""
            };
            return Err(anyhow::Error::from(error)).with_context(|| format!("{}{hint}", server.target()));
        }
    };
    Ok(question::read_rows(&answer)?)
}
