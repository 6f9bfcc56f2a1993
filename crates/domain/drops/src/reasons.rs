//! The reasons of a kernel.

use crate::classes;
use crate::explained::is_counted;
use sockeye_dictionary::DropClass;
use sockeye_wire::drops::{INDEXES, Treatment, index_of, reason_at};
use std::collections::HashMap;

/// Names and classes of the reasons of this kernel.
#[derive(Debug, Default)]
pub struct Reasons {
    names: HashMap<u32, String>,
    classes: HashMap<u32, DropClass>,
    /// Whether the kernel gives reasons (Linux 5.17).
    pub are_given: bool,
}

impl Reasons {
    /// Takes the enumerators of `enum skb_drop_reason`.
    #[must_use]
    pub fn new(enumerators: &[(i64, String)]) -> Self {
        let mut reasons = Self::default();
        reasons.add(enumerators);
        reasons
    }

    /// The enumerations of modules that have reasons of their own: module and enumeration.
    pub const OF_MODULES: [(&'static str, &'static str); 2] = [
        // net/mac80211/drop.h, net/openvswitch/drop.h (Linux 6.6)
        ("mac80211", "mac80211_drop_reason"),
        ("openvswitch", "ovs_drop_reason"),
    ];

    /// Adds the enumerators of a module's enumeration. Those without a subsystem are not reasons: mac80211 has `RX_CONTINUE` there.
    pub fn add_of_module(&mut self, enumerators: &[(i64, String)]) {
        let of_subsystem = enumerators.iter().filter(|(value, _)| *value > 0xffff);
        let of_subsystem: Vec<_> = of_subsystem.cloned().collect();
        self.add(&of_subsystem);
    }

    fn add(&mut self, enumerators: &[(i64, String)]) {
        for (value, name) in enumerators {
            let Ok(value) = u32::try_from(*value) else {
                continue;
            };
            let short = classes::short_name(name);
            // Marks of the enum, which are no reasons.
            if short == "MAX" || short.starts_with("SUBSYS_") || short.starts_with("__") {
                continue;
            }
            if let Some(class) = classes::of_reason(name) {
                self.classes.insert(value, class);
            }
            self.names.insert(value, short.to_owned());
        }
    }

    /// Returns how the program counts each reason; without `keys` all of them only by reason.
    #[must_use]
    pub fn treatments(&self, all: bool, keys: bool) -> [Treatment; INDEXES] {
        std::array::from_fn(|index| match keys && self.is_shown(index, all) {
            true => Treatment::BySocket,
            false => Treatment::InTotals,
        })
    }

    /// The same for a comparison with counters: normal ends that a counter counts, of which there are few keys, are not counted only by reason.
    #[must_use]
    pub fn treatments_with_counters(&self, all: bool, keys: bool) -> [Treatment; INDEXES] {
        let mut treatments = self.treatments(all, keys);
        let reasons = self.names.iter().filter(|(_, name)| keys && is_counted(name));
        for (reason, _) in reasons.filter(|(reason, _)| reason_at(index_of(**reason)) == Some(**reason)) {
            let treatment = &mut treatments[index_of(*reason)];
            if *treatment == Treatment::InTotals {
                *treatment = Treatment::WithoutSocket;
            }
        }
        treatments
    }

    /// Whether the drops of the reason with this index are shown: normal ends of packets only with `all`.
    #[must_use]
    pub fn is_shown(&self, index: usize, all: bool) -> bool {
        let class = reason_at(index).and_then(|reason| self.classes.get(&reason));
        all || class != Some(&DropClass::Normal)
    }

    /// Returns the class of a reason of this kernel.
    #[must_use]
    pub fn class(&self, reason: u32) -> Option<DropClass> {
        self.classes.get(&reason).copied()
    }

    /// Returns the name of a reason; a number where this kernel's types have no name for it, `None` if it gives no reasons.
    #[must_use]
    pub fn name(&self, reason: u32) -> Option<String> {
        self.are_given.then(|| {
            let name = self.names.get(&reason).cloned();
            name.unwrap_or_else(|| format!("{}:{}", reason >> 16, reason & 0xffff))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_the_enumeration_are_no_reasons() {
        let of = |value, name: &str| (value, name.to_owned());
        let mut reasons = Reasons::new(&[
            of(2, "SKB_DROP_REASON_NOT_SPECIFIED"),
            of(3, "SKB_DROP_REASON_NO_SOCKET"),
            of(120, "SKB_DROP_REASON_MAX"),
            of(0xffff_0000, "SKB_DROP_REASON_SUBSYS_MASK"),
        ]);
        reasons.add_of_module(&[
            of(3, "RX_QUEUED"),
            of(0x1_0000, "___RX_DROP_UNUSABLE"),
            of(0x1_0001, "RX_DROP_U_MIC_FAIL"),
        ]);
        reasons.are_given = true;
        assert_eq!(reasons.name(3).as_deref(), Some("NO_SOCKET"));
        assert_eq!(reasons.name(0x1_0001).as_deref(), Some("RX_DROP_U_MIC_FAIL"));
        // Without a name it is a number.
        assert_eq!(reasons.name(120).as_deref(), Some("0:120"));
        assert_eq!(reasons.name(0x1_0000).as_deref(), Some("1:0"));
        assert_eq!(reasons.class(3), Some(DropClass::Refusal));
    }

    #[test]
    fn normal_end_that_a_counter_counts_has_its_device() {
        let of = |value, name: &str| (value, name.to_owned());
        let reasons = Reasons::new(&[
            of(7, "SKB_DROP_REASON_UNHANDLED_PROTO"),
            of(8, "SKB_DROP_REASON_TCP_OLD_DATA"),
            of(9, "SKB_DROP_REASON_NO_SOCKET"),
        ]);
        let treatment = |keys| [7, 8, 9].map(|reason| reasons.treatments_with_counters(false, keys)[reason]);
        assert_eq!(
            treatment(true),
            [Treatment::WithoutSocket, Treatment::InTotals, Treatment::BySocket]
        );
        assert_eq!(treatment(false), [Treatment::InTotals; 3]);
    }
}
