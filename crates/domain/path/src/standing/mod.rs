//! What a report has of connections whose data stand still.
//!
//! - `rows`: their rows among the hops
//! - `words`: what is said of them; `why`: of the way to the peer; `idle`: where nothing waits

mod idle;
mod rows;
#[cfg(test)]
mod tests;
mod why;
mod words;
