//! The options -4 and -6.

use clap::Args;

/// The IP version to use.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FamilyArgs {
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
}

impl FamilyArgs {
    /// Returns `true` for IPv6 only, `false` for IPv4 only, `None` for both.
    pub(crate) const fn is_v6(self) -> Option<bool> {
        match (self.ipv4, self.ipv6) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        }
    }
}
