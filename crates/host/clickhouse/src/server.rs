//! Requests to a server.

use crate::error::ServerError;
use bytes::Bytes;
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use sockeye_http::{PostLimits, Target, TlsClient, post};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A server and who asks it.
#[derive(Debug)]
pub struct Server {
    target: Target,
    tls: Option<TlsClient>,
    database: String,
    headers: HeaderMap,
    runtime: Runtime,
    /// Whether the server collects inserts; one before 26.1 does not do so and know repeated rows in its views.
    collects: AtomicBool,
}

impl Server {
    /// Names a server. It is not connected to before it is asked. `tls`: whom to trust, if its URL begins with `https`.
    ///
    /// # Errors
    /// If name or password cannot be in a header, or the client cannot be started.
    pub fn new(
        target: Target,
        tls: Option<TlsClient>,
        database: &str,
        user: &str,
        password: Option<&str>,
    ) -> Result<Self, ServerError> {
        let mut headers = HeaderMap::new();
        let invalid = || {
            let what = "the name or password of the user has bytes that HTTP does not allow";
            ServerError::Local(std::io::Error::new(std::io::ErrorKind::InvalidInput, what))
        };
        headers.insert(USER, HeaderValue::from_str(user).map_err(|_| invalid())?);
        if let Some(password) = password {
            let mut value = HeaderValue::from_str(password).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(PASSWORD, value);
        }
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        Ok(Self {
            target,
            tls,
            database: database.to_owned(),
            headers,
            runtime: runtime.map_err(ServerError::Local)?,
            collects: AtomicBool::new(true),
        })
    }

    /// Returns its URL.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the name of the database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Inserts rows in RowBinary by a statement that ends in `FORMAT RowBinary`. Rows with a token that the table remembers are not
    /// inserted again. The server collects the inserts of many hosts before it writes them, from ClickHouse 26.1 on; it answers when
    /// they are written.
    ///
    /// # Errors
    /// Why they may not be inserted. Without an answer they may be.
    pub fn insert(&self, statement: &str, token: &str, rows: &[u8]) -> Result<(), ServerError> {
        let inserted = self.try_insert(statement, token, rows);
        if self.collects.load(Ordering::Relaxed) && inserted.as_ref().is_err_and(ServerError::is_unsupported)
        {
            self.collects.store(false, Ordering::Relaxed);
            return self.try_insert(statement, token, rows);
        }
        inserted
    }

    fn try_insert(&self, statement: &str, token: &str, rows: &[u8]) -> Result<(), ServerError> {
        let compressed = zstd::bulk::compress(rows, LEVEL).map_err(ServerError::Local)?;
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
        let collects = if self.collects.load(Ordering::Relaxed) {
            "1"
        } else {
            "0"
        };
        let parameters = [
            ("database", self.database.as_str()),
            ("query", statement),
            ("insert_deduplication_token", token),
            ("insert_deduplicate", "1"),
            ("deduplicate_blocks_in_dependent_materialized_views", "1"),
            ("async_insert", collects),
            ("wait_for_async_insert", "1"),
            ("async_insert_deduplicate", collects),
            // On a cluster: the answer comes when all parts of it have the rows.
            ("distributed_foreground_insert", "1"),
        ];
        self.post(&parameters, headers, compressed, INSERT).map(drop)
    }

    /// Asks for rows in RowBinary. The parameters are in the statement as `{name:Type}`.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn query(&self, statement: &str, parameters: &[(&str, String)]) -> Result<Vec<u8>, ServerError> {
        let names: Vec<_> = parameters
            .iter()
            .map(|(name, _)| format!("param_{name}"))
            .collect();
        let mut all = vec![
            ("database", self.database.as_str()),
            ("default_format", "RowBinary"),
            // An error in the middle of the answer is its status.
            ("wait_end_of_query", "1"),
        ];
        let values = parameters.iter().map(|(_, value)| value.as_str());
        all.extend(names.iter().map(String::as_str).zip(values));
        self.post(&all, self.headers.clone(), statement.as_bytes().to_vec(), QUERY)
    }

    /// Executes a statement that returns nothing. It does not need the database.
    ///
    /// # Errors
    /// Why it may not be executed.
    pub fn execute(&self, statement: &str) -> Result<(), ServerError> {
        let parameters = [("wait_end_of_query", "1")];
        let body = statement.as_bytes().to_vec();
        self.post(&parameters, self.headers.clone(), body, QUERY)
            .map(drop)
    }

    fn post(
        &self,
        parameters: &[(&str, &str)],
        headers: HeaderMap,
        body: Vec<u8>,
        limits: PostLimits,
    ) -> Result<Vec<u8>, ServerError> {
        let target = self.target.with_query(parameters);
        let reply = self
            .runtime
            .block_on(post(
                &target,
                self.tls.as_ref(),
                headers,
                Bytes::from(body),
                limits,
            ))
            .map_err(ServerError::Unreachable)?;
        let code = reply.headers.get(CODE);
        let code = code.and_then(|code| code.to_str().ok()?.parse().ok());
        if !reply.status.is_success() || code.is_some() {
            return Err(ServerError::Refused {
                status: reply.status.as_u16(),
                code,
                text: first_line(&reply.body),
            });
        }
        if reply.is_cut {
            return Err(ServerError::TooLarge(limits.reply_bytes));
        }
        Ok(reply.body)
    }
}

/// Returns the message of an error: without its stack and the version of the server, without control characters.
fn first_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_MAX)]);
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let line = line.split(" (version ").next().unwrap_or_default();
    let clean = line
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char });
    clean.collect::<String>().trim().to_owned()
}

const USER: &str = "x-clickhouse-user";
const PASSWORD: &str = "x-clickhouse-key";
const CODE: &str = "x-clickhouse-exception-code";

/// Level of compression: the one that the facts were measured with.
const LEVEL: i32 = 3;

/// Bytes of an error that are looked at.
const TEXT_MAX: usize = 500;

/// Bytes of an answer that are read.
pub const ANSWER_BYTES: usize = 64 << 20;

const INSERT: PostLimits = PostLimits {
    timeout: Duration::from_secs(60),
    reply_bytes: 64 << 10,
};

const QUERY: PostLimits = PostLimits {
    timeout: Duration::from_secs(120),
    reply_bytes: ANSWER_BYTES,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_an_error_is_one_clean_line() {
        let body =
            b"Code: 60. DB::Exception: Table a.b does not exist. (UNKNOWN_TABLE) (version 26.9.2.1)\n\nstack";
        assert_eq!(
            first_line(body),
            "Code: 60. DB::Exception: Table a.b does not exist. (UNKNOWN_TABLE)"
        );
        assert_eq!(first_line(b"\na\x1b[31mb"), "a [31mb");
        assert_eq!(first_line(b""), "");
    }

    #[test]
    fn password_that_http_does_not_allow_is_an_error() {
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        assert!(Server::new(target, None, "sockeye", "default", Some("a\nb")).is_err());
    }
}
