//! Names for numbers.
