//! Vitals of the namespaces that a listing is about: counters, settings and devices.

use crate::listing::Listing;
use crate::namespaces::Namespace;
use sockeye_model::{NetnsInode, Vitals};
use sockeye_source::{OpenNetns, own_namespace, vitals};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

/// The vitals of namespaces at one time.
#[derive(Debug, Clone, Default)]
pub struct NamespaceVitals {
    /// Those that could be read. Without a choice of namespaces: our own.
    pub by_netns: BTreeMap<Option<NetnsInode>, Vitals>,
    /// Number of those that could not be entered.
    pub unreadable: u64,
}

impl Listing<'_> {
    /// Reads the vitals of each namespace.
    pub fn vitals(&self) -> NamespaceVitals {
        let mut read = NamespaceVitals::default();
        let selection = &self.context.namespaces;
        let targets = self.targets.candidates();
        let namespaces: Vec<&Namespace> = targets.iter().filter_map(|target| target.netns).collect();
        // Our own needs no right to be entered.
        let own = own_namespace();
        let is_here = |namespace: &&Namespace| Some(namespace.inode()) == own;
        if namespaces.is_empty() || namespaces.iter().any(is_here) {
            read.by_netns.insert(own, vitals::namespace());
        }
        let namespaces: Vec<&Namespace> = namespaces.into_iter().filter(|one| !is_here(one)).collect();
        let open = |number: usize, act: &mut dyn FnMut(OpenNetns<'_>)| {
            let namespace = namespaces
                .get(number)
                .ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
            selection.open(namespace, act)
        };
        for (namespace, found) in namespaces.iter().zip(vitals::namespaces(namespaces.len(), &open)) {
            match found {
                Ok(vitals) => drop(read.by_netns.insert(Some(namespace.inode()), vitals)),
                // It is gone, with its counters.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => read.unreadable += 1,
            }
        }
        read
    }
}
