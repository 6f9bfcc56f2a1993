//! The event log of a connection, bounded in size.

use crate::{Confidence, Event, EventKind};

/// Events in the order in which they were detected.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    events: Vec<Event>,
    withdrawn: Vec<u32>,
    left_out: u64,
    max: usize,
    time_ns: u64,
    frame: u64,
    from_client: bool,
}

/// Identifies an event, to change its kind later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventNumber(u32);

impl EventLog {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    /// Sets time, frame and direction for the events that follow.
    pub(crate) fn at(&mut self, time_ns: u64, frame: u64, from_client: bool) {
        (self.time_ns, self.frame, self.from_client) = (time_ns, frame, from_client);
    }

    /// Time and frame of the current segment, for events that are added later.
    pub(crate) fn now(&self) -> (u64, u64) {
        (self.time_ns, self.frame)
    }

    /// Adds an event of the current segment.
    pub(crate) fn push(
        &mut self,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        self.add(self.now(), self.from_client, kind, confidence, evidence)
    }

    /// Adds an event of the other side's data, shown by the current segment.
    pub(crate) fn push_of_peer(
        &mut self,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        self.push_of_peer_at(self.now(), kind, confidence, evidence)
    }

    /// Adds an event of the other side's data at another time.
    pub(crate) fn push_of_peer_at(
        &mut self,
        when: (u64, u64),
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        self.add(when, !self.from_client, kind, confidence, evidence)
    }

    /// Adds an event that began at an earlier time and frame.
    pub(crate) fn push_at(
        &mut self,
        when: (u64, u64),
        of_peer: bool,
        kind: EventKind,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        let from_client = self.from_client != of_peer;
        self.add(when, from_client, kind, Confidence::Likely, evidence)
    }

    /// Adds an event that ends with the current segment.
    pub(crate) fn push_since(
        &mut self,
        time_ns: u64,
        from_client: bool,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) {
        self.add((time_ns, self.frame), from_client, kind, confidence, evidence);
    }

    /// Changes the kind of an event.
    pub(crate) fn change(
        &mut self,
        number: Option<EventNumber>,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) {
        if let Some(event) = number.and_then(|number| self.events.get_mut(number.0 as usize)) {
            (event.kind, event.confidence, event.evidence) = (kind, confidence, evidence);
        }
    }

    /// Sets the number of segments of an event.
    pub(crate) fn count(&mut self, number: Option<EventNumber>, segs: u32) {
        if let Some(event) = number.and_then(|number| self.events.get_mut(number.0 as usize)) {
            event.segments = segs;
        }
    }

    /// Changes all events of this side with this kind and evidence to another kind.
    pub(crate) fn change_all(
        &mut self,
        kinds: (EventKind, EventKind),
        evidence: &'static str,
        better: &'static str,
    ) {
        for event in &mut self.events {
            if event.from_client == self.from_client && event.kind == kinds.0 && event.evidence == evidence {
                (event.kind, event.evidence) = (kinds.1, better);
            }
        }
    }

    /// Removes an event.
    pub(crate) fn remove(&mut self, number: Option<EventNumber>) {
        self.withdrawn.extend(number.map(|number| number.0));
    }

    /// All events in order of time, and the number of those that did not fit.
    pub(crate) fn events(&mut self) -> (Vec<Event>, u64) {
        let mut events = std::mem::take(&mut self.events);
        let mut number = 0;
        self.withdrawn.sort_unstable();
        events.retain(|_| {
            number += 1;
            self.withdrawn.binary_search(&(number - 1)).is_err()
        });
        events.sort_by_key(|event| event.time_ns);
        (events, self.left_out)
    }

    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.events.capacity() * size_of::<Event>()
    }

    fn add(
        &mut self,
        (time_ns, frame): (u64, u64),
        from_client: bool,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        if self.events.len() >= self.max {
            self.left_out += 1;
            return None;
        }
        self.events.push(Event {
            time_ns,
            frame,
            from_client,
            kind,
            segments: 1,
            confidence,
            evidence,
        });
        Some(EventNumber((self.events.len() - 1) as u32))
    }
}
