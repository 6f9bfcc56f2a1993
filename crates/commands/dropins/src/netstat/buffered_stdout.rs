//! Standard output, written in large pieces.

use crate::output::netstat::TextForm;
use anyhow::Context;
use sockeye_console::stdout::{self, Stdout};
use sockeye_output::harmless;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Standard output with a buffer in front of it.
#[derive(Debug)]
pub(super) struct BufferedStdout {
    /// Bytes not written yet.
    pub(super) text: Vec<u8>,
    stdout: Stdout,
}

impl BufferedStdout {
    pub(super) fn open() -> anyhow::Result<Self> {
        Ok(Self {
            text: Vec::with_capacity(LIMIT + 4096),
            stdout: stdout::open().context(stdout::WRITING)?,
        })
    }

    /// Writes the buffer if it has reached 64 KiB.
    #[inline]
    pub(super) fn flush_if_large(&mut self) -> anyhow::Result<()> {
        if self.text.len() < LIMIT {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the buffer.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.stdout.write_all(&self.text);
        self.text.clear();
        written.context(stdout::WRITING)
    }

    /// Writes the buffer and waits a second before the next round of `-c`. False if stdout is closed.
    pub(super) fn flush_and_pause(&mut self) -> anyhow::Result<bool> {
        self.flush()?;
        Ok(stdout::pause(Duration::from_secs(1)))
    }
}

/// Returns the form of untrusted text: clean for a terminal, raw otherwise.
pub(super) fn text_form() -> TextForm {
    if std::io::stdout().is_terminal() {
        TextForm::Clean
    } else {
        TextForm::Raw
    }
}

/// Returns the name of an interface for standard output: clean for a terminal, raw otherwise. A name may have any byte but
/// blanks, `/` and `:`.
pub(super) fn shown_name(name: &[u8]) -> Cow<'_, [u8]> {
    match text_form() {
        TextForm::Raw => Cow::Borrowed(name),
        TextForm::Clean => Cow::Owned(harmless(name).into_bytes()),
    }
}

const LIMIT: usize = 64 * 1024;
