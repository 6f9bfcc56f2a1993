//! The places of connections. When all are taken, one that waits for its client makes room for the next: a client that sends half a
//! request, or none, delays no other client.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// All places, of which there is a fixed number.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: Mutex<Taken>,
    /// A place is free, or its connection may be closed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    /// In the order in which they began to wait.
    all: Vec<Connection>,
    last_id: u64,
}

#[derive(Debug)]
struct Connection {
    id: u64,
    peer: Option<IpAddr>,
    /// Whether it makes room: no request of it is being answered, or only one that gives way.
    gives_way: bool,
    /// `None` until its task runs.
    task: Option<AbortHandle>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    id: u64,
}

/// A request that is being answered: its connection is not closed for another one.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Place>);

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            taken: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Returns a place for a connection, which waits for its first request. Closes another one if none is free: of the peer that has
    /// most of them, the one that has waited longest. If none may be closed, it waits.
    pub(crate) async fn enter(self: &Arc<Self>, peer: Option<IpAddr>) -> Place {
        let peer = peer.map(network);
        loop {
            if let Some(place) = self.try_enter(peer) {
                return place;
            }
            self.changed.notified().await;
        }
    }

    fn try_enter(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.all.len() >= self.max {
            let index = taken.to_close()?;
            let closed = taken.all.remove(index);
            if let Some(task) = closed.task {
                task.abort();
            }
        }
        taken.last_id += 1;
        let id = taken.last_id;
        taken.all.push(Connection {
            id,
            peer,
            gives_way: true,
            task: None,
        });
        let places = Arc::clone(self);
        Some(Place { places, id })
    }

    /// Nothing that holds the lock can panic half-way.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Returns the index of the connection that makes room; `None` if none may be closed.
    fn to_close(&self) -> Option<usize> {
        let of_peer = |peer| {
            let all = self.all.iter();
            all.filter(|one| one.gives_way && one.peer == peer).count()
        };
        let waiting = self.all.iter().enumerate().filter(|(_, one)| one.gives_way);
        // The first of several that are equal is the oldest.
        waiting
            .min_by_key(|(_, one)| std::cmp::Reverse(of_peer(one.peer)))
            .map(|(index, _)| index)
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.all.iter().position(|one| one.id == id)
    }
}

impl Place {
    /// Sets the task of a connection, which ends at once if its place was taken from it.
    pub(crate) fn set_task(places: &Places, id: u64, task: AbortHandle) {
        let mut taken = places.taken();
        match taken.index(id) {
            Some(index) => taken.all[index].task = Some(task),
            // It was closed before it ran.
            None => task.abort(),
        }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Says that the client of the request in hand has not logged in: its connection may be closed for another one.
    pub fn give_way(&self) {
        let mut taken = self.places.taken();
        if let Some(index) = taken.index(self.id) {
            taken.all[index].gives_way = true;
        }
        drop(taken);
        self.places.changed.notify_one();
    }

    /// Begins to answer a request.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        let mut taken = self.places.taken();
        if let Some(index) = taken.index(self.id) {
            taken.all[index].gives_way = false;
        }
        Answering(Arc::clone(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(index) = taken.index(self.id) {
            taken.all.remove(index);
        }
        drop(taken);
        self.places.changed.notify_one();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut taken = self.0.places.taken();
        if let Some(index) = taken.index(self.0.id) {
            let mut connection = taken.all.remove(index);
            connection.gives_way = true;
            // It begins to wait.
            taken.all.push(connection);
        }
        drop(taken);
        self.0.places.changed.notify_one();
    }
}

/// Returns what one client has: an address, or a network of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    #[test]
    fn longest_waiting_connection_of_the_busiest_peer_is_closed() {
        let places = Places::new(4);
        let enter = |last| places.try_enter(from(last)).map(Arc::new);
        let is_there = |place: &Arc<Place>| places.taken().index(place.id).is_some();
        let honest = enter(1).unwrap();
        let hostile = [2, 2, 2].map(|last| enter(last).unwrap());
        let next = enter(2).unwrap();
        assert!(is_there(&honest) && !is_there(&hostile[0]) && is_there(&next));
        // One that is answered stays, and waits anew after it.
        let answering = hostile[1].answer();
        let further = enter(2).unwrap();
        assert!(is_there(&hostile[1]) && !is_there(&hostile[2]));
        drop(answering);
        let last = enter(2).unwrap();
        assert!(!is_there(&next) && is_there(&hostile[1]) && is_there(&further) && is_there(&last));
    }

    #[test]
    fn request_that_gives_way_is_closed_and_others_are_not() {
        let places = Places::new(2);
        let both = [1, 1].map(|last| Arc::new(places.try_enter(from(last)).unwrap()));
        let answering = [both[0].answer(), both[1].answer()];
        assert!(places.try_enter(from(2)).is_none());
        both[1].give_way();
        let third = places.try_enter(from(2)).unwrap();
        assert!(places.taken().index(both[1].id).is_none());
        drop(answering);
        // What ends later than its place takes none away.
        drop(both);
        assert_eq!(places.taken().all.len(), 1);
        drop(third);
        assert!(places.taken().all.is_empty());
    }

    #[test]
    fn addresses_of_a_network_are_one_client() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.2"), of("10.0.0.1"));
    }
}
