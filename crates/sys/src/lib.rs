//! System calls as safe functions: netlink sockets and network namespaces.
//!
//! This is the only crate where `unsafe` could be allowed, module by module; so far rustix's safe calls
//! have been enough and there is none. Functions take borrowed descriptors and return owned ones.
//!
//! What it deliberately does not do: understand what it carries. Bytes go out and come in.
//!
//! ```
//! let socket = sockeye_sys::netlink::DiagSocket::open().unwrap();
//! assert!(socket.send(b"not a netlink message").is_ok()); // the kernel drops it silently
//! ```

pub mod netlink;
pub mod netns;
