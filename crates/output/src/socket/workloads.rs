//! Containers, units and executables of a socket, in every format.

use super::Sockets;
use super::row::SocketRow;
use crate::csv::Line;
use crate::json::Object;
use crate::listing::{Composite, SortValue};
use crate::table::Tint;
use crate::text::push_name;
use sockeye_model::{WorkloadKind, WorkloadSource};

/// Workloads of one kind; several are separated by commas.
pub(super) struct Workload(pub(super) WorkloadKind);

impl Workload {
    fn text(&self, row: &SocketRow<'_>) -> Option<Vec<u8>> {
        let mut text: Option<Vec<u8>> = None;
        row.entry.visit_workloads(self.0, &mut |id| {
            let name = row.names.workload(id).unwrap_or_default();
            match &mut text {
                Some(text) => {
                    text.push(b',');
                    text.extend_from_slice(name.as_bytes());
                }
                None => text = Some(name.into()),
            }
        });
        text
    }
}

impl Composite<Sockets> for Workload {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        push_name(out, &self.text(row).unwrap_or_default());
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        line.bytes(self.text(row).as_deref());
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        object.bytes(self.0.name(), self.text(row).as_deref());
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        Some(SortValue::Text(self.text(row)?.into()))
    }
}

/// The way in which container and unit are known.
pub(super) struct Source;

impl Source {
    fn word(row: &SocketRow<'_>) -> Option<&'static str> {
        [WorkloadKind::Container, WorkloadKind::Unit]
            .into_iter()
            .find_map(|kind| row.entry.visit_workloads(kind, &mut |_| {}))
            .map(WorkloadSource::name)
    }
}

impl Composite<Sockets> for Source {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        out.extend_from_slice(Self::word(row).unwrap_or_default().as_bytes());
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        match Self::word(row) {
            Some(word) => line.word(word),
            None => line.empty(1),
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        if let Some(word) = Self::word(row) {
            object.word("workload_source", word);
        }
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        Some(SortValue::Text(Self::word(row)?.as_bytes().into()))
    }
}
