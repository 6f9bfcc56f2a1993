//! What is printed, in large pieces.

use anyhow::Context;
use sockeye_console::stdout::{self, Stdout};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Standard output with a buffer before it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) text: Vec<u8>,
    stdout: Stdout,
}

impl Page {
    pub(super) fn open() -> anyhow::Result<Self> {
        Ok(Self {
            text: Vec::with_capacity(LIMIT + 4096),
            stdout: stdout::open().context(stdout::WRITING)?,
        })
    }

    /// Writes what there is if there is much.
    #[inline]
    pub(super) fn turn(&mut self) -> anyhow::Result<()> {
        if self.text.len() < LIMIT {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what there is.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.stdout.write_all(&self.text);
        self.text.clear();
        written.context(stdout::WRITING)
    }

    /// Before the next round of `-c`: false if nobody reads on.
    pub(super) fn rest(&mut self) -> anyhow::Result<bool> {
        self.flush()?;
        Ok(stdout::pause(Duration::from_secs(1)))
    }
}

/// How text from outside is written there.
pub(super) fn text_form() -> crate::output::netstat::Text {
    if std::io::stdout().is_terminal() {
        crate::output::netstat::Text::Clean
    } else {
        crate::output::netstat::Text::Raw
    }
}

const LIMIT: usize = 64 * 1024;
