//! Devices and their queues.

use super::rows::{About, Rows};
use super::sink::Totals;
use crate::output::records::{DeviceRow, Devices};
use sockeye_model::{Device, NetnsInode, counted};
use sockeye_output::listing::{Column, all_columns};
use sockeye_query::listing::Listing;
use sockeye_query::vitals::NamespaceVitals;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

/// What takes samples of devices.
#[derive(Default)]
pub(crate) struct DeviceView {
    before: Option<(NamespaceVitals, Instant)>,
}

impl DeviceView {
    /// Returns the columns of the table.
    pub(crate) fn columns(listing: &Listing<'_>) -> Vec<&'static Column<Devices>> {
        let all = all_columns::<Devices>();
        let are_many = listing.context.namespaces.are_many();
        all.filter(|column| are_many || column.name != "netns").collect()
    }

    /// Takes a sample.
    pub(crate) fn take(
        &mut self,
        listing: &Listing<'_>,
        rows: &mut impl Rows<Devices>,
    ) -> anyhow::Result<Totals> {
        let (taken, now) = (Instant::now(), listing.vitals());
        let are_many = listing.context.namespaces.are_many();
        for (&netns, vitals) in &now.by_netns {
            for device in &vitals.devices {
                let before = self.before.as_ref().and_then(|(before, at)| {
                    let before = find(before, netns, device)?;
                    Some((before, taken.duration_since(*at)))
                });
                let row = DeviceRow {
                    names: listing.context,
                    netns: netns.filter(|_| are_many),
                    device,
                    before,
                };
                rows.add(&row, &|| about(netns, device))?;
            }
        }
        let text = match now.unreadable {
            0 => String::new(),
            count => format!("{} could not be entered", counted(count, "namespace")),
        };
        self.before = Some((now, taken));
        Ok(Totals {
            text,
            ..Totals::default()
        })
    }
}

fn find<'v>(vitals: &'v NamespaceVitals, netns: Option<NetnsInode>, device: &Device) -> Option<&'v Device> {
    let mut devices = vitals.by_netns.get(&netns)?.devices.iter();
    devices.find(|old| old.index == device.index && old.name == device.name)
}

fn about(netns: Option<NetnsInode>, device: &Device) -> About {
    let mut hasher = DefaultHasher::new();
    (netns, device.index, device.name).hash(&mut hasher);
    About {
        id: hasher.finish(),
        ..About::default()
    }
}
