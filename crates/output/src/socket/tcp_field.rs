//! Fields of tcp_info and of MPTCP's info, as columns.

use crate::number::push_decimal;
use crate::unit::push_ca_state;
use sockeye_model::{MptcpInfo, TcpInfo, strip_unit};

/// A field of [`TcpInfo`], by its index in [`TcpInfo::NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpField(u8);

impl TcpField {
    /// Number of fields.
    pub const COUNT: usize = TcpInfo::NAMES.len();

    /// Returns all fields, in the kernel's order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|index| Self(index as u8))
    }

    /// Returns the field with this name; it must exist, which is checked at compile time.
    pub const fn named(name: &str) -> Self {
        let mut index = 0;
        while index < Self::COUNT {
            if same(TcpInfo::NAMES[index].as_bytes(), name.as_bytes()) {
                return Self(index as u8);
            }
            index += 1;
        }
        panic!("no such field of tcp_info")
    }

    /// Returns its name, with its unit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TcpInfo::NAMES[self.0 as usize]
    }

    /// Returns its name without its unit, unless another field would have the same name: `delivered_ce_segs` is
    /// not `delivered_ce_bytes`.
    pub fn short_name(self) -> &'static str {
        let short = strip_unit(self.name());
        let same = TcpInfo::NAMES.iter().filter(|name| strip_unit(name) == short);
        if same.count() == 1 { short } else { self.name() }
    }

    /// Returns the index of this field among all TCP fields.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A field of [`MptcpInfo`], by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MptcpField(u8);

impl MptcpField {
    /// Returns the field at an index.
    pub(super) const fn at(index: u8) -> Self {
        Self(index)
    }

    /// Returns its index.
    pub(super) const fn index(self) -> u8 {
        self.0
    }

    /// Returns all fields, in the kernel's order.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut count = 0_u8;
        MptcpInfo::default().visit(|_, _| count += 1);
        (0..count).map(Self)
    }

    /// Returns its name, with its unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.find(&MptcpInfo::default()).0
    }

    /// Returns its value in `info`; `None` if unknown.
    pub fn value(self, info: &MptcpInfo) -> Option<u64> {
        self.find(info).1
    }

    fn find(self, info: &MptcpInfo) -> (&'static str, Option<u64>) {
        let (mut index, mut found) = (0, ("", None));
        info.visit(|name, value| {
            if index == self.0 {
                found = (name, value);
            }
            index += 1;
        });
        found
    }
}

/// Appends the value of the field with this index as CSV and JSON show it: the name of a state between `quotes`, a truth
/// value, or a number.
#[inline]
pub(super) fn push_tcp_value(out: &mut Vec<u8>, index: usize, value: u64, quotes: &[u8]) {
    if index == CA_STATE.index() {
        out.extend_from_slice(quotes);
        push_ca_state(out, value);
        out.extend_from_slice(quotes);
    } else if index == APP_LIMITED.index() {
        out.extend_from_slice(if value != 0 { b"true" } else { b"false" });
    } else {
        push_decimal(out, value);
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The field that is a state of congestion avoidance, shown as a word.
pub(super) const CA_STATE: TcpField = TcpField::named("ca_state");
/// The field that is a boolean.
pub(super) const APP_LIMITED: TcpField = TcpField::named("delivery_rate_app_limited");
