//! That somebody wants it to end.

use super::Trouble;
use sockeye_sys::interrupts::Interrupts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Looked at between two waits, none of which is long.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    interrupts: Option<Interrupts>,
}

impl Stop {
    /// One that signals set as well.
    #[must_use]
    pub fn by(interrupts: Interrupts) -> Self {
        Self {
            flag: Arc::default(),
            interrupts: Some(interrupts),
        }
    }

    /// From now on.
    pub fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self
                .interrupts
                .is_some_and(|interrupts| interrupts.caught().is_some())
    }

    /// Fails if it is to end.
    ///
    /// # Errors
    /// [`Trouble::Stopped`].
    pub fn check(&self) -> Result<(), Trouble> {
        if self.is_set() {
            Err(Trouble::Stopped)
        } else {
            Ok(())
        }
    }
}
