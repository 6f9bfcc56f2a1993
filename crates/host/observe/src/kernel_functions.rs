//! Names of the kernel's functions by address, for addresses that tracepoints report.

use crate::Unavailable;
use crate::symbols::Kernel;

/// The functions of the kernel, its modules and BPF programs, as they are now.
#[derive(Debug)]
pub struct KernelFunctions(Kernel);

impl KernelFunctions {
    /// Reads them.
    #[must_use]
    pub fn read() -> Self {
        Self(Kernel::read())
    }

    /// Returns the name of the function at an address, and its module unless it is the kernel itself; `None` if unknown.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(String, Option<String>)> {
        let frame = self.0.frame(address);
        Some((frame.function?, frame.module.filter(|module| module != "kernel")))
    }

    /// Returns why names are missing.
    #[must_use]
    pub const fn unavailable(&self) -> Option<&Unavailable> {
        self.0.unavailable.as_ref()
    }
}
