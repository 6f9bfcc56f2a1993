//! Limit of memory that all flows of one `Trace` share: unacknowledged transmissions and points of graphs.
//! It counts what did not fit, so that the analysis can report it instead of growing without bound.

/// Memory budget of all connections together.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    /// Transmissions that still fit
    pub(crate) left: usize,
    /// Transmissions that did not fit
    pub(crate) refused: u64,
    /// Points of graphs that still fit
    pub(crate) points_left: usize,
    /// Segments with points that did not fit
    pub(crate) points_refused: u64,
}

impl Budget {
    /// A budget for segments that count already.
    pub(crate) const fn endless() -> Self {
        Self {
            left: usize::MAX / 2,
            refused: 0,
            points_left: usize::MAX / 2,
            points_refused: 0,
        }
    }

    /// Takes space for one transmission; returns whether there was any.
    pub(crate) fn take(&mut self) -> bool {
        let has_space = self.left > 0;
        if has_space {
            self.left -= 1;
        } else {
            self.refused += 1;
        }
        has_space
    }

    pub(crate) fn release(&mut self, count: usize) {
        self.left += count;
    }
}
