//! Tables, JSON, JSON lines and CSV of sockets and flows, into anything that can be written to.
