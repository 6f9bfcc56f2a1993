//! What happened to a connection, as far as there is room.

use crate::{Confidence, Event, EventKind};

/// Events in the order in which they were noticed.
#[derive(Debug)]
pub(crate) struct History {
    events: Vec<Event>,
    withdrawn: Vec<u32>,
    left_out: u64,
    max: usize,
    time_ns: u64,
    frame: u64,
    from_client: bool,
}

/// Which event it is; for changing an opinion later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventNumber(u32);

impl History {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            events: Vec::new(),
            withdrawn: Vec::new(),
            left_out: 0,
            max,
            time_ns: 0,
            frame: 0,
            from_client: false,
        }
    }

    /// What comes is of this segment.
    pub(crate) fn at(&mut self, time_ns: u64, frame: u64, from_client: bool) {
        (self.time_ns, self.frame, self.from_client) = (time_ns, frame, from_client);
    }

    /// The present, for an event that is told later.
    pub(crate) fn now(&self) -> (u64, u64) {
        (self.time_ns, self.frame)
    }

    /// Something of the segment that is looked at.
    pub(crate) fn push(
        &mut self,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        self.add(
            self.time_ns,
            self.frame,
            self.from_client,
            kind,
            confidence,
            evidence,
        )
    }

    /// Something of the other side's data, which the segment that is looked at reveals.
    pub(crate) fn push_of_peer(&mut self, kind: EventKind, confidence: Confidence, evidence: &'static str) {
        self.add(
            self.time_ns,
            self.frame,
            !self.from_client,
            kind,
            confidence,
            evidence,
        );
    }

    /// The same, at another moment.
    pub(crate) fn push_of_peer_at(
        &mut self,
        when: (u64, u64),
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) {
        self.add(when.0, when.1, !self.from_client, kind, confidence, evidence);
    }

    /// Something that began at another moment, at that frame.
    pub(crate) fn push_at(
        &mut self,
        when: (u64, u64),
        of_peer: bool,
        kind: EventKind,
        evidence: &'static str,
    ) -> Option<EventNumber> {
        let from_client = self.from_client != of_peer;
        self.add(when.0, when.1, from_client, kind, Confidence::Likely, evidence)
    }

    /// Something that this segment ends.
    pub(crate) fn push_since(
        &mut self,
        time_ns: u64,
        from_client: bool,
        kind: EventKind,
        confidence: Confidence,
        evidence: &'static str,
    ) {
        self.add(time_ns, self.frame, from_client, kind, confidence, evidence);
    }

    /// A better opinion of an event.
    pub(crate) fn amend(
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

    /// All events of this side that were taken for one kind, for that reason, are of another.
    pub(crate) fn restate(
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

    /// It did not happen.
    pub(crate) fn withdraw(&mut self, number: Option<EventNumber>) {
        self.withdrawn.extend(number.map(|number| number.0));
    }

    /// All of them in the order of time, and how many there was no room for.
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

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.events.capacity() * size_of::<Event>()
    }

    fn add(
        &mut self,
        time_ns: u64,
        frame: u64,
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
            confidence,
            evidence,
        });
        Some(EventNumber((self.events.len() - 1) as u32))
    }
}
