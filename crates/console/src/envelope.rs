//! The clock, the host and the boot, for what every machine-readable document says of itself.

use sockeye_output::{Envelope, Origin};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the envelope of a sample that is taken now.
#[must_use]
pub fn now() -> Envelope {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Envelope {
        time_us: u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX),
        origin: &ORIGIN,
    }
}

/// Neither changes while a command runs.
static ORIGIN: LazyLock<Origin> = LazyLock::new(|| Origin {
    host: host(),
    boot_id: boot_id(),
    version: env!("CARGO_PKG_VERSION"),
});

/// Returns the name of the host, of the UTS namespace that we are in.
fn host() -> Option<String> {
    let names = rustix::system::uname();
    let name = names.nodename().to_string_lossy().into_owned();
    // The kernel's value until something sets a name.
    Some(name).filter(|name| !name.is_empty() && name != "(none)")
}

fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = text.trim_end();
    let is_uuid = id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uuid.then(|| id.to_owned())
}
