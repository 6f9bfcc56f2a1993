//! Writes rows.

use super::column_buffer::ColumnBuffer;
use super::line::Line;
use super::row::{SsLayout, SsNames, SsRow};
use sockeye_model::{Family, Protocol};
use std::io::{self, Write};

/// Writes rows as `ss` does. Nothing is written before [`SsWriter::finish`], except when about 4 MiB are buffered.
#[derive(Debug)]
pub struct SsWriter<W> {
    out: W,
    layout: SsLayout,
    columns: ColumnBuffer,
}

impl<W: Write> SsWriter<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W, layout: SsLayout) -> Self {
        let columns = ColumnBuffer::new(&layout);
        Self { out, layout, columns }
    }

    /// Adds the header line.
    pub fn header(&mut self) {
        self.columns.header();
    }

    /// Adds a socket.
    ///
    /// # Errors
    /// When a full buffer cannot be written.
    #[inline]
    pub fn row(&mut self, row: &SsRow<'_>, names: &dyn SsNames) -> io::Result<()> {
        self.columns.begin(&mut self.out)?;
        let mut line = Line {
            columns: &mut self.columns,
            layout: &self.layout,
            names,
        };
        match row.socket.protocol {
            Protocol::Tcp | Protocol::Udp | Protocol::UdpLite | Protocol::Raw | Protocol::Mptcp => {
                line.inet(row);
            }
            Protocol::PacketRaw | Protocol::PacketDgram => line.packet(row),
            Protocol::Netlink => line.netlink(row),
            _ if row.socket.family == Family::Packet => line.packet(row),
            _ => line.unix(row),
        }
        Ok(())
    }

    /// Writes the buffered rows, and returns the output.
    ///
    /// # Errors
    /// When they cannot be written.
    #[cfg(any(test, fuzzing))]
    pub fn into_output(mut self) -> io::Result<W> {
        self.finish()?;
        Ok(self.out)
    }

    /// Writes the buffered rows. More rows may follow; columns never become narrower.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.columns.finish(&mut self.out)?;
        self.out.flush()
    }
}
