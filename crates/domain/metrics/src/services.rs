//! A bounded number of services; the rest counts as `other`.

use crate::{Service, ServiceMetrics, ServiceSample};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The services that have metrics of their own, and `other`.
#[derive(Debug, Clone)]
pub struct Services {
    named_max: usize,
    metrics: BTreeMap<Service, ServiceMetrics>,
    /// Services of the last sample that are in `other`.
    folded: usize,
}

impl Services {
    /// At most `named_max` services have their own metrics.
    #[must_use]
    pub const fn new(named_max: usize) -> Self {
        Self {
            named_max,
            metrics: BTreeMap::new(),
            folded: 0,
        }
    }

    /// Returns the services in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Service, &ServiceMetrics)> {
        self.metrics.iter()
    }

    /// Returns how many services of the last sample are in `other`.
    #[must_use]
    pub const fn folded(&self) -> usize {
        self.folded
    }

    /// Adds a sample. A service that once has metrics of its own keeps them, so that they never go back; those with most connections
    /// are the first to get them.
    pub(crate) fn add(&mut self, sample: BTreeMap<Service, ServiceSample>) {
        let mut kept = BTreeMap::<Service, ServiceSample>::new();
        let (known, mut new): (Vec<_>, Vec<_>) = sample
            .into_iter()
            .partition(|(service, _)| self.metrics.contains_key(service) || service.is_other());
        for (service, of_service) in known {
            kept.entry(service).or_default().add(&of_service);
        }
        new.sort_by_key(|(_, sample)| Reverse(sample.connections()));
        self.make_room(new.len());
        let free = self.named_max.saturating_sub(self.named());
        self.folded = new.len().saturating_sub(free);
        for (place, (service, of_service)) in new.into_iter().enumerate() {
            let service = if place < free {
                service
            } else {
                Service::other(service.direction)
            };
            kept.entry(service).or_default().add(&of_service);
        }
        for (service, metrics) in &mut self.metrics {
            metrics.add(kept.remove(service));
        }
        for (service, of_service) in kept {
            self.metrics.entry(service).or_default().add(Some(of_service));
        }
    }

    /// Forgets services that are long gone, if new ones need their places.
    fn make_room(&mut self, wanted: usize) {
        if self.named() + wanted > self.named_max {
            self.metrics
                .retain(|service, metrics| service.is_other() || metrics.samples_absent < SAMPLES_ABSENT_MAX);
        }
    }

    fn named(&self) -> usize {
        self.metrics.keys().filter(|service| !service.is_other()).count()
    }
}

/// Samples without a service until its place may be given to another one: an hour, if there is one each ten seconds.
const SAMPLES_ABSENT_MAX: u32 = 360;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counted;
    use sockeye_model::{Direction, State};

    fn sample(services: &[(&str, u64)]) -> BTreeMap<Service, ServiceSample> {
        let services = services.iter().map(|(name, connections)| {
            let service = Service {
                direction: Direction::Passive,
                name: (*name).into(),
            };
            let mut sample = ServiceSample {
                counted: Counted {
                    opened: Some(*connections),
                    ..Counted::default()
                },
                ..ServiceSample::default()
            };
            sample.states[usize::from(State::Established.number())] = *connections;
            (service, sample)
        });
        services.collect()
    }

    /// Name, connections now, opened in total.
    #[track_caller]
    fn check(services: &Services, expected: &[(&str, u64, u64)]) {
        let found: Vec<_> = services
            .iter()
            .map(|(service, metrics)| {
                let opened = metrics.counted.opened.unwrap();
                (&*service.name, metrics.last.connections(), opened)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn services_beyond_the_bound_are_folded_and_counted() {
        let mut services = Services::new(2);
        services.add(sample(&[("a", 1), ("b", 9), ("c", 5), ("d", 2)]));
        check(&services, &[("b", 9, 9), ("c", 5, 5), ("other", 3, 3)]);
        assert_eq!(services.folded(), 2);
    }

    #[test]
    fn totals_stay_when_connections_and_services_end() {
        let mut services = Services::new(2);
        services.add(sample(&[("a", 4), ("b", 9)]));
        services.add(sample(&[("c", 50)]));
        services.add(sample(&[("a", 1)]));
        check(&services, &[("a", 1, 5), ("b", 0, 9), ("other", 0, 50)]);
        assert_eq!(services.folded(), 0);
    }

    #[test]
    fn place_of_a_service_that_is_long_gone_is_given_away() {
        let mut services = Services::new(1);
        services.add(sample(&[("a", 4)]));
        for _ in 0..SAMPLES_ABSENT_MAX {
            services.add(sample(&[]));
        }
        check(&services, &[("a", 0, 4)]);
        services.add(sample(&[("b", 2)]));
        check(&services, &[("b", 2, 2)]);
    }

    #[test]
    fn service_called_other_is_no_other_service() {
        let mut services = Services::new(1);
        services.add(sample(&[("a", 4), ("other", 1), ("z", 1)]));
        check(&services, &[("a", 4, 4), ("other", 2, 2)]);
        assert_eq!(services.folded(), 1);
    }
}
