//! Commands for the network namespace of a device.

use crate::hop::Device;

/// Returns a command as it is typed to run in a network namespace, which its inode names; `None` if it cannot be.
pub type InNamespace<'a> = &'a dyn Fn(u32, &str) -> Option<String>;

/// Returns a command for the network namespace of a device.
pub(crate) fn typed(device: &Device, command: &str, in_namespace: InNamespace<'_>) -> String {
    in_namespace(device.netns, command).unwrap_or_else(|| {
        format!(
            "{command}    # in the network namespace of {}",
            device_name(device)
        )
    })
}

/// Returns the name of a device.
pub(crate) fn device_name(device: &Device) -> String {
    String::from_utf8_lossy(device.name.as_bytes()).into_owned()
}
