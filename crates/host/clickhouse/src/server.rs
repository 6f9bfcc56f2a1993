//! Requests to a server.

use crate::error::{ServerError, UNKNOWN_COMPRESSION_METHOD, UNKNOWN_SETTING};
use bytes::Bytes;
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use sockeye_http::{PostLimits, Target, TlsClient, post};
use std::sync::{Mutex, PoisonError};
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
    lacks: Mutex<Lacks>,
}

/// What the server does not have of what inserts ask for, as it has said.
#[derive(Debug, Clone, Default)]
struct Lacks {
    /// It does not collect inserts and know repeated rows in its views, as one before 26.1.
    collecting: bool,
    /// It reads no bodies in zstd, as one before 19.17 or so.
    zstd: bool,
    /// Settings that it does not know, as one before their time.
    settings: Vec<&'static str>,
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
            lacks: Mutex::default(),
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
    /// inserted again, if the server [has tokens](Self::has_tokens). The server collects the inserts of many hosts before it writes
    /// them, from ClickHouse 26.1 on; it answers when they are written.
    ///
    /// # Errors
    /// Why they may not be inserted. Without an answer they may be.
    pub fn insert(&self, statement: &str, token: &str, rows: &[u8]) -> Result<(), ServerError> {
        loop {
            let lacks = self.lacks().clone();
            let inserted = self.try_insert(&lacks, statement, token, rows);
            let further = inserted.as_ref().err().and_then(|error| lacks.with(error));
            match further {
                Some(further) => *self.lacks() = further,
                None => return inserted,
            }
        }
    }

    /// Whether the server knows rows by their token that come again, as far as inserts have shown it: ClickHouse from 22.2 on.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        !self.lacks().settings.contains(&TOKEN)
    }

    fn lacks(&self) -> std::sync::MutexGuard<'_, Lacks> {
        self.lacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_insert(
        &self,
        lacks: &Lacks,
        statement: &str,
        token: &str,
        rows: &[u8],
    ) -> Result<(), ServerError> {
        let mut headers = self.headers.clone();
        let body = if lacks.zstd {
            rows.to_vec()
        } else {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
            zstd::bulk::compress(rows, LEVEL).map_err(ServerError::Local)?
        };
        let collects = if lacks.collecting { "0" } else { "1" };
        let settings = SETTINGS.map(|name| match name {
            TOKEN => (name, token),
            "async_insert" | "async_insert_deduplicate" => (name, collects),
            _ => (name, "1"),
        });
        let mut parameters = vec![("database", self.database.as_str()), ("query", statement)];
        parameters.extend(
            settings
                .into_iter()
                .filter(|(name, _)| !lacks.settings.contains(name)),
        );
        self.post(&parameters, headers, body, INSERT).map(drop)
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
            let text = first_line(&reply.body);
            return Err(ServerError::Refused {
                status: reply.status.as_u16(),
                // Servers before 20.x have no header for it.
                code: code.or_else(|| code_of(&text)),
                text,
            });
        }
        if reply.is_cut {
            return Err(ServerError::TooLarge(limits.reply_bytes));
        }
        Ok(reply.body)
    }
}

impl Lacks {
    /// Returns what the server lacks, too, if this is what its error says.
    fn with(&self, error: &ServerError) -> Option<Self> {
        let mut lacks = self.clone();
        match error {
            ServerError::Refused {
                code: Some(UNKNOWN_SETTING),
                text,
                ..
            } => {
                let is_named = |name: &&&str| text.split(|char| !is_of_name(char)).any(|word| word == **name);
                let unknown = SETTINGS.iter().find(is_named)?;
                if lacks.settings.contains(unknown) {
                    return None;
                }
                lacks.settings.push(unknown);
            }
            ServerError::Refused {
                code: Some(UNKNOWN_COMPRESSION_METHOD),
                ..
            } if !lacks.zstd => lacks.zstd = true,
            error if error.is_unsupported() && !lacks.collecting => lacks.collecting = true,
            _ => return None,
        }
        Some(lacks)
    }
}

const fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Returns the number of an error in its text: `Code: 60, e.displayText() = DB::Exception: ...`.
fn code_of(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("Code: ")?;
    let end = rest.find(|char: char| !char.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// Returns the message of an error: without its stack and the version of the server, without control characters.
fn first_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_MAX)]);
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let line = line.split(" (version ").next().unwrap_or_default();
    let line = line.split(", e.what() = ").next().unwrap_or_default();
    let clean = line
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char });
    clean.collect::<String>().trim().to_owned()
}

const USER: &str = "x-clickhouse-user";
const PASSWORD: &str = "x-clickhouse-key";
const CODE: &str = "x-clickhouse-exception-code";

const TOKEN: &str = "insert_deduplication_token";

/// Settings of inserts. On a cluster `distributed_foreground_insert` lets the answer come when all parts of it have the rows.
const SETTINGS: [&str; 7] = [
    TOKEN,
    "insert_deduplicate",
    "deduplicate_blocks_in_dependent_materialized_views",
    "async_insert",
    "wait_for_async_insert",
    "async_insert_deduplicate",
    "distributed_foreground_insert",
];

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
        let old =
            b"Code: 115, e.displayText() = DB::Exception: Unknown setting a, e.what() = DB::Exception\n";
        assert_eq!(
            first_line(old),
            "Code: 115, e.displayText() = DB::Exception: Unknown setting a"
        );
        assert_eq!(code_of(&first_line(old)), Some(115));
        assert_eq!(code_of("a proxy's page"), None);
        assert_eq!(first_line(b"\na\x1b[31mb"), "a [31mb");
        assert_eq!(first_line(b""), "");
    }

    #[test]
    fn what_old_servers_do_not_know_is_left_out() {
        let refused = |code, text: &str| ServerError::Refused {
            status: 500,
            code: Some(code),
            text: text.to_owned(),
        };
        let lacks = Lacks::default();
        let further = lacks.with(&refused(115, "Unknown setting insert_deduplication_token, e"));
        assert_eq!(further.as_ref().expect("it is left out").settings, [TOKEN]);
        // Not the longer name that contains it.
        let further = lacks.with(&refused(
            115,
            "Unknown setting async_insert: Maybe you meant ['x']",
        ));
        assert_eq!(further.expect("it is left out").settings, ["async_insert"]);
        // One that it does not know although it was left out, and one that is not ours.
        let without = lacks
            .with(&refused(115, "Unknown setting async_insert"))
            .expect("it is left out");
        assert!(
            without
                .with(&refused(115, "Unknown setting async_insert"))
                .is_none()
        );
        assert!(lacks.with(&refused(115, "Unknown setting database")).is_none());
        let plain = lacks.with(&refused(89, "Unknown Content-Encoding of HTTP request: zstd"));
        assert!(plain.is_some_and(|lacks| lacks.zstd && lacks.with(&refused(89, "zstd")).is_none()));
        assert!(lacks.with(&refused(60, "Table does not exist")).is_none());
    }

    #[test]
    fn password_that_http_does_not_allow_is_an_error() {
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        assert!(Server::new(target, None, "sockeye", "default", Some("a\nb")).is_err());
    }
}
