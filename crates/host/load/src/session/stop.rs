//! The flag that ends a benchmark early.

use super::Error;
use sockeye_sys::interrupts::Interrupts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stop flag, checked between short waits; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    interrupts: Option<Interrupts>,
}

impl Stop {
    /// Returns a flag that caught signals set as well.
    #[must_use]
    pub fn on_signal(interrupts: Interrupts) -> Self {
        Self {
            flag: Arc::default(),
            interrupts: Some(interrupts),
        }
    }

    /// Sets the flag.
    pub(crate) fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Returns whether the flag is set, or a signal was caught.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self
                .interrupts
                .is_some_and(|interrupts| interrupts.caught().is_some())
    }

    /// Fails if the flag is set.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_set() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }
}
