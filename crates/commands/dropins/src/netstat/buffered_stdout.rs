//! Standard output, written in large pieces.

use anyhow::Context;
use sockeye_console::stdout::{self, Stdout};
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
pub(super) fn text_form() -> crate::output::netstat::TextForm {
    if std::io::stdout().is_terminal() {
        crate::output::netstat::TextForm::Clean
    } else {
        crate::output::netstat::TextForm::Raw
    }
}

const LIMIT: usize = 64 * 1024;
