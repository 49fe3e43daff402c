//! Main of every lane: the services, and the receiver of the control thread's messages.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lane::layout::LaneSpec;
use lane::{Ended, time};

use crate::control::{ControlReceiver, EventSender};
use crate::egress::Mark;
use crate::lane_messages::{Control, LaneEvent};
use crate::lane_services::{LaneServices, ServicesStart};
use crate::listeners::LaneListener;
use crate::listening::Listening;
use crate::reload_transaction::Preparation;
use crate::silo::{AcceptRouter, Loads, Placement, SiloCounters, links_to_silos};
use crate::startup_barrier::StartupBarrier;

/// Parameters that a lane starts with.
pub(crate) struct Boot {
    pub(crate) services: ServicesStart,
    pub(crate) listeners: Vec<LaneListener>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) startup_barrier: Arc<StartupBarrier>,
    pub(crate) loads: Loads,
    pub(crate) control: ControlReceiver,
    pub(crate) events: EventSender,
    pub(crate) mark: Mark,
}

/// Runs a lane from its start to its end.
pub(crate) async fn lane_main(spec: LaneSpec, mut boot: Boot) {
    let lane = lane::current();
    let (id, silo) = (lane.id().0, lane.silo().0);
    boot.services.blocks.add("lane", id, silo, Arc::clone(lane.counters()) as _);
    let silo_counters = Arc::new(SiloCounters::default());
    boot.services.blocks.add("silo", id, silo, Arc::clone(&silo_counters) as _);
    boot.services.blocks.add("rate", id, silo, Arc::clone(&boot.services.share.usage) as _);
    let ended = EndedGuard::new(boot.events.clone());
    let keeper = boot.startup_barrier.keeper(spec.id);

    let services = match LaneServices::start(&boot.services) {
        Ok(services) => services,
        Err(problem) => return boot.events.send(LaneEvent::Failed(problem)),
    };
    mark(&services, &silo_counters, boot.mark);
    boot.startup_barrier.wait(keeper, &services).await;
    let (outgoing, incoming) = links_to_silos(lane.mesh(), spec.id);
    let (placement, counters) = (Arc::clone(&boot.placement), Arc::clone(&silo_counters));
    let several_nodes = placement.is_open();
    let router = AcceptRouter::new(spec.node, placement, outgoing, boot.loads.clone(), counters);
    let (at_router, serving, incoming) =
        (Rc::clone(&router), Rc::clone(&services), Rc::new(RefCell::new(incoming)));
    let take_in = move || Rc::clone(&at_router).take_in(Rc::clone(&serving), Rc::clone(&incoming));
    lane::spawn_restarting("hand-over of connections", take_in).detach();
    if several_nodes {
        let (loads, counters) = (boot.loads.clone(), Arc::clone(&silo_counters));
        let measure = move || loads.clone().keep_measuring(spec.id, Arc::clone(&counters));
        lane::spawn_restarting("measure of the lane's load", measure).detach();
    }
    let events = boot.events.clone();
    let counters = Arc::clone(&silo_counters);
    let listening = Listening::new(spec.id, Rc::clone(&services), Rc::clone(&router), counters, events);
    if let Err(error) = listening.add(std::mem::take(&mut boot.listeners)) {
        return boot.events.send(LaneEvent::Failed(error.to_string()));
    }
    let logging = Rc::clone(&services);
    lane::spawn_restarting("flush of the access log", move || Rc::clone(&logging).keep_logs_fresh()).detach();
    boot.events.send(LaneEvent::Serving);
    control_loop(boot, &services, &router, &listening, &silo_counters, ended).await;
}

async fn control_loop(
    mut boot: Boot,
    services: &Rc<LaneServices>,
    router: &AcceptRouter,
    listening: &Rc<Listening>,
    silo_counters: &Arc<SiloCounters>,
    ended: EndedGuard,
) {
    let mut preparation = None;
    // Without a control thread there is nothing left to serve for.
    while let Some(control) = boot.control.recv().await {
        Preparation::settle(&mut preparation, listening, &boot.events);
        match control {
            Control::Prepare(order) => {
                let number = order.number;
                let prepared = Preparation::new(*order, services);
                let outcome = prepared.as_ref().map(|_| ()).map_err(Clone::clone);
                preparation = prepared.ok();
                boot.events.send(LaneEvent::Prepared { lane: listening.lane(), order: number, outcome });
                // A bell overtakes mail: another lane's refusal may have decided while this one still made ready.
                Preparation::settle(&mut preparation, listening, &boot.events);
            }
            Control::Decided => {}
            Control::Listen(listeners) => {
                if let Err(error) = listening.add(listeners) {
                    boot.events.send(LaneEvent::Failed(error.to_string()));
                }
            }
            Control::StopListening => {
                let listening = Rc::clone(listening);
                let stopping = async move {
                    listening.stop().await;
                    Ended::Done
                };
                lane::spawn_critical("end of its listeners", stopping).detach();
            }
            Control::Place(placement) => router.set_placement(placement),
            Control::Mark(new) => mark(services, silo_counters, new),
            Control::Drain(patience) => {
                let following = follow_marks(boot.control, Rc::clone(services), Arc::clone(silo_counters));
                lane::spawn(following).detach();
                let cut = services.drain(time::now() + patience).await;
                ended.cut.store(cut, Ordering::Relaxed);
                // What another program changes while no server runs has a later time than what was changed here.
                time::sleep(vfs::SETTLES_IN).await;
                return boot.startup_barrier.leave(services).await;
            }
        }
    }
}

/// Carries out orders to mark packets while transfers come to their ends, as links may still be lost.
async fn follow_marks(mut control: ControlReceiver, services: Rc<LaneServices>, counters: Arc<SiloCounters>) {
    while let Some(control) = control.recv().await {
        if let Control::Mark(new) = control {
            mark(&services, &counters, new);
        }
    }
}

fn mark(services: &LaneServices, counters: &SiloCounters, mark: Mark) {
    match mark {
        Mark::None => {}
        Mark::LinkLost => counters.marks_lost.increment(),
        Mark::Of(_) => counters.marks_given.increment(),
    }
    services.mark(mark.value());
}

/// Guard that reports the lane's end in any case: as the main future ends or panics, or with the thread where
/// the ring fails.
struct EndedGuard {
    cut: Arc<AtomicUsize>,
}

impl EndedGuard {
    fn new(events: EventSender) -> Self {
        let cut = Arc::<AtomicUsize>::default();
        LAST_WORD.set(Some(EndEvent { events, cut: Arc::clone(&cut) }));
        Self { cut }
    }
}

impl Drop for EndedGuard {
    fn drop(&mut self) {
        // Nothing is left to be told where the thread is ending.
        let _ = LAST_WORD.try_with(|word| word.take());
    }
}

struct EndEvent {
    events: EventSender,
    cut: Arc<AtomicUsize>,
}

impl Drop for EndEvent {
    fn drop(&mut self) {
        self.events.send(LaneEvent::Ended { cut: self.cut.load(Ordering::Relaxed) });
    }
}

thread_local! {
    /// Report of the lane's end, sent once, at the latest as the thread ends.
    static LAST_WORD: RefCell<Option<EndEvent>> = const { RefCell::new(None) };
}
