//! Messages between the control thread and the lanes, by the mesh: orders to lanes, and their events.
//!
//! Each lane has room for so much that it has not taken yet; beyond it the control thread gets its message back and tries
//! again later. That a verdict was given, and that the control thread has ended, stands in what both share: these only
//! ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lane::mesh::{Exchange, Limits, Mail, Member, Port, Refused, Sender};

use crate::lane_messages::{Control, LaneEvent};

/// Control thread's sender to one lane. Its drop ends the lane.
#[derive(Debug)]
pub(crate) struct LaneControl {
    sender: Sender<Control>,
    lane: Member,
    over: Arc<AtomicBool>,
}

/// Receiver of a lane's [`Control`] messages.
pub(crate) struct ControlReceiver {
    port: Port<Control>,
    over: Arc<AtomicBool>,
}

/// Sender of a lane's events to the control thread.
#[derive(Clone)]
pub(crate) struct EventSender {
    inner: Arc<EventSenderInner>,
}

struct EventSenderInner {
    sender: Sender<LaneEvent>,
    control: Member,
    /// Number of lanes that may still send events.
    alive: Arc<AtomicUsize>,
}

/// Receiver of all lanes' events in the control thread.
pub(crate) struct EventReceiver {
    port: Port<LaneEvent>,
    alive: Arc<AtomicUsize>,
}

/// Makes the senders to `lanes` lanes, each with room for `room` messages, and the lanes' receivers.
pub(crate) fn controls(lanes: usize, room: usize) -> (Vec<LaneControl>, Vec<ControlReceiver>) {
    // The control thread is the last member.
    let exchange = Exchange::new(lanes + 1, Limits { messages: room, calls: 0 });
    let sender = exchange.sender(Member::from(lanes));
    let ends = (0..lanes).map(Member::from).map(|lane| {
        let over = Arc::<AtomicBool>::default();
        let port = exchange.open(lane).expect("each is opened once");
        let control = LaneControl { sender: sender.clone(), lane, over: Arc::clone(&over) };
        (control, ControlReceiver { port, over })
    });
    ends.unzip()
}

/// Makes the senders of `lanes` lanes' events, and their receiver.
pub(crate) fn events(lanes: usize) -> (Vec<EventSender>, EventReceiver) {
    let exchange = Exchange::new(lanes + 1, Limits { messages: NEWS_MAX, calls: 0 });
    let (control, alive) = (Member::from(lanes), Arc::new(AtomicUsize::new(lanes)));
    let port = exchange.open(control).expect("it is opened once");
    let event_sender = |lane| {
        let sender = exchange.sender(Member::from(lane));
        EventSender { inner: Arc::new(EventSenderInner { sender, control, alive: Arc::clone(&alive) }) }
    };
    ((0..lanes).map(event_sender).collect(), EventReceiver { port, alive })
}

impl LaneControl {
    /// Sends the lane a message, at once or not at all.
    ///
    /// # Errors
    /// The message, when the lane has not yet handled the one before, or has ended.
    pub(crate) fn send(&self, control: Control) -> Result<(), Refused<Control>> {
        self.sender.cast(self.lane, control)
    }

    /// Wakes the lane to look at the verdict on its order. There is always room for that.
    pub(crate) fn ring(&self) {
        self.sender.ring(self.lane);
    }
}

impl Drop for LaneControl {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.ring();
    }
}

impl ControlReceiver {
    /// Waits for the next message; a ring is [`Control::Decided`]. `None` when the control thread has let go
    /// of the lane and all it said was taken.
    pub(crate) async fn recv(&mut self) -> Option<Control> {
        loop {
            if self.over.load(Ordering::SeqCst) {
                // Nothing new comes; what is there is still obeyed.
                self.port.close();
            }
            match self.port.recv().await? {
                Mail::Cast(_, control) | Mail::Call(_, control, _) => return Some(control),
                Mail::Rung if self.over.load(Ordering::SeqCst) => {}
                Mail::Rung => return Some(Control::Decided),
            }
        }
    }

    /// Returns the next message, if one waits.
    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<Control> {
        loop {
            if let Mail::Cast(_, control) = self.port.try_recv()? {
                return Some(control);
            }
        }
    }
}

impl EventSender {
    /// Sends an event to the control thread. Lanes say little, and there is room for much: what finds none is
    /// lost, and counted.
    pub(crate) fn send(&self, what: LaneEvent) {
        // The control thread is gone only when the process ends.
        let _ = self.inner.sender.cast(self.inner.control, what);
    }
}

impl Drop for EventSenderInner {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
        self.sender.ring(self.control);
    }
}

impl EventReceiver {
    /// Waits for the next event; `None` when all lanes are gone and all their events were taken.
    pub(crate) async fn recv(&mut self) -> Option<LaneEvent> {
        loop {
            if self.alive.load(Ordering::SeqCst) == 0 {
                self.port.close();
            }
            if let Mail::Cast(_, events) = self.port.recv().await? {
                return Some(events);
            }
        }
    }

    /// Receives an event on a thread without an executor ([`EventReceiver::recv`]).
    pub(crate) fn blocking_recv(&mut self) -> Option<LaneEvent> {
        lane::mesh::wait(None, self.recv()).flatten()
    }
}

/// Most events of one lane that wait to be received.
const NEWS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use lane::backend::sim::{Config, World, seeds};
    use lane::time;

    use super::*;

    /// Sends messages to simulated lanes by a control thread: all arrive, full or not, and a lane whose
    /// sender is dropped ends.
    #[test]
    fn lanes_hear_what_they_are_told_and_end_with_their_control() {
        seeds(20, |seed| {
            let world = World::new(seed, Config::rough());
            let host = world.host("10.0.0.1");
            assert_eq!([host.add_lane(), host.add_lane()], [1, 2]);
            let (controls, orders) = controls(2, 2);
            let (event_senders, mut receiver) = events(2);
            let decided = Rc::new(Cell::new(0));
            for (lane, (mut orders, event_sender)) in orders.into_iter().zip(event_senders).enumerate() {
                let decided = Rc::clone(&decided);
                host.spawn_on(lane + 1, async move {
                    event_sender.send(LaneEvent::Serving);
                    time::sleep(Duration::from_millis(5)).await;
                    while let Some(control) = orders.recv().await {
                        match control {
                            Control::StopListening => event_sender.send(LaneEvent::StoppedListening { lane }),
                            Control::Decided => decided.set(decided.get() + 1),
                            _ => panic!("nobody said that"),
                        }
                    }
                    event_sender.send(LaneEvent::Ended { cut: lane });
                });
            }
            let (stopped, ended) = world.block_on(&host, async move {
                for _ in 0..2 {
                    assert!(matches!(receiver.recv().await, Some(LaneEvent::Serving)));
                }
                for control in &controls {
                    assert!(control.send(Control::StopListening).is_ok());
                    assert!(control.send(Control::StopListening).is_ok());
                    assert!(control.send(Control::StopListening).is_err(), "it has not come round to it");
                    control.ring();
                }
                let mut controls = Some(controls);
                let (mut stopped, mut ended) = (0, 0);
                while let Some(events) = receiver.recv().await {
                    match events {
                        LaneEvent::StoppedListening { .. } => stopped += 1,
                        LaneEvent::Ended { .. } => ended += 1,
                        events => panic!("{events:?}"),
                    }
                    if stopped == 4 {
                        controls.take();
                    }
                }
                (stopped, ended)
            });
            assert_eq!((stopped, ended), (4, 2));
            assert!(decided.get() <= 2, "a ring is heard once, or is overtaken by the end");
        });
    }
}
