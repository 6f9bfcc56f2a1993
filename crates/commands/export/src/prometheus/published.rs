//! The last sample as text, which all requests share.

use crate::output::{Exposition, Form};
use bytes::Bytes;
use std::sync::{Mutex, PoisonError};

/// The text of the last sample.
#[derive(Debug, Default)]
pub(super) struct Published(Mutex<Texts>);

#[derive(Debug, Default)]
struct Texts {
    open_metrics: Bytes,
    text: Bytes,
}

impl Published {
    /// Replaces the text.
    pub(super) fn set(&self, exposition: Exposition) {
        let texts = Texts {
            open_metrics: exposition.open_metrics.into(),
            text: exposition.text.into(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = texts;
    }

    /// Returns the text, which is not copied.
    pub(super) fn text(&self, form: Form) -> Bytes {
        let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match form {
            Form::OpenMetrics => texts.open_metrics.clone(),
            Form::Text => texts.text.clone(),
        }
    }
}
