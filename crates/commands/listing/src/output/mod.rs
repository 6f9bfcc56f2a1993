//! The report of `doctor`; the columns of flows and sockets are in `sockeye_output`.

pub(crate) mod doctor;
