//! Tasks of one lane that accept at its sockets, one for each.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lane::net::{TcpListener, UdpSocket};
use lane::{Ended, Task, time};
use service::{LaneSocket, Transport};

use crate::control::EventSender;
use crate::lane_messages::LaneEvent;
use crate::lane_services::LaneServices;
use crate::listeners::{Destination, LaneListener, ListenerId};
use crate::silo::{AcceptRouter, SiloCounters};

/// Listeners of a lane.
pub(crate) struct Listening {
    lane: usize,
    services: Rc<LaneServices>,
    router: Rc<AcceptRouter>,
    counters: Arc<SiloCounters>,
    events: EventSender,
    tasks: RefCell<HashMap<ListenerId, Accepting>>,
    /// Number of listeners that were added so far, which numbers them.
    added: Cell<u64>,
}

/// Listeners that the lane owns already, but takes no connections from yet.
pub(crate) struct Adopted {
    listeners: Vec<(ListenerId, Destination, LaneSocket)>,
}

impl Adopted {
    /// Takes over all of the listeners, or none.
    pub(crate) fn new(listeners: Vec<LaneListener>) -> io::Result<Self> {
        let adopt = |LaneListener { id, to, transport, socket }| {
            let socket = match transport {
                Transport::Tcp => LaneSocket::Tcp(Rc::new(TcpListener::adopt(socket)?)),
                Transport::Rx => LaneSocket::Udp(Rc::new(UdpSocket::adopt(socket)?)),
            };
            Ok((id, to, socket))
        };
        Ok(Self { listeners: listeners.into_iter().map(adopt).collect::<io::Result<_>>()? })
    }
}

/// Task that accepts at a listener. Its drop closes the listener; accepted connections go on.
struct Accepting {
    number: u64,
    _task: Task<()>,
}

impl Listening {
    pub(crate) fn new(
        lane: usize,
        services: Rc<LaneServices>,
        router: Rc<AcceptRouter>,
        counters: Arc<SiloCounters>,
        events: EventSender,
    ) -> Rc<Self> {
        Rc::new(Self {
            lane,
            services,
            router,
            counters,
            events,
            tasks: RefCell::default(),
            added: Cell::new(0),
        })
    }

    pub(crate) fn lane(&self) -> usize {
        self.lane
    }

    /// Starts to accept at more listeners, in place of those with the same id.
    pub(crate) fn add(self: &Rc<Self>, listeners: Vec<LaneListener>) -> io::Result<()> {
        self.accept(Adopted::new(listeners)?);
        Ok(())
    }

    /// Starts to accept at listeners that the lane has taken over before ([`Listening::add`]). It cannot
    /// fail.
    pub(crate) fn accept(self: &Rc<Self>, adopted: Adopted) {
        for (id, to, socket) in adopted.listeners {
            let me = Rc::clone(self);
            let task = lane::spawn_restarting("accept loop", move || {
                let (me, socket) = (Rc::clone(&me), socket.clone());
                async move {
                    let router = me.router.of(to.service);
                    let Some(service) = me.services.get(to.service) else { return Ended::Done };
                    if let Err(error) = service.listen(socket, to.role, router).await {
                        me.counters.listeners_died.increment();
                        let problem = format!("a listener was closed by something else: {error}");
                        // The control thread opens a new one then.
                        me.events.send(LaneEvent::ListenerDied { lane: me.lane, problem });
                    }
                    Ended::Done
                }
            });
            let number = self.added.get();
            self.added.set(number + 1);
            let replaced = self.tasks.borrow_mut().insert(id, Accepting { number, _task: task });
            drop(replaced);
        }
        self.gauge();
    }

    pub(crate) fn remove(&self, id: ListenerId) {
        let removed = self.tasks.borrow_mut().remove(&id);
        drop(removed);
        self.gauge();
    }

    /// Closes the present listeners after the time in which handshakes that had begun end, and asks
    /// connections to leave as they become idle. Listeners that are added meanwhile stay, and connections
    /// then too.
    pub(crate) async fn stop(self: Rc<Self>) {
        let until = self.added.get();
        time::sleep(HANDSHAKE_MAX).await;
        let tasks = self.tasks.take().into_iter();
        let (old, new): (HashMap<_, _>, HashMap<_, _>) = tasks.partition(|(_, task)| task.number < until);
        let returned = !new.is_empty();
        self.tasks.replace(new);
        drop(old);
        self.gauge();
        if !returned {
            self.services.dismiss();
        }
        self.events.send(LaneEvent::StoppedListening { lane: self.lane });
    }

    fn gauge(&self) {
        self.counters.listeners.set(self.tasks.borrow().len() as u64);
    }
}

/// Time until a handshake with this lane has ended: its first packet is answered here, and its last may come
/// this much later.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);
