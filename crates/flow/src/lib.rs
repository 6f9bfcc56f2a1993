//! Folds sockets into host flows.
