//! The two directions of a connection.

/// Which of the two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to server
    Forward,
    /// Server to client
    Backward,
}
