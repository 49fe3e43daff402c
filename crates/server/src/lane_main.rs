//! What runs on every lane: the services, and the ear for the control thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lane::layout::LaneSpec;
use lane::{Ended, time};
use service::Site;
use service::pacer::RateShare;
use service::volumes::VolumeTable;
use vfs::Withheld;

use crate::control::{Orders, Teller};
use crate::egress::Mark;
use crate::lane_services::LaneServices;
use crate::listeners::LaneListener;
use crate::listening::Listening;
use crate::logs::LaneLogs;
use crate::metrics::Blocks;
use crate::round::{Order, Preparation};
use crate::silo::{Door, Loads, Placement, SiloCounters, ways};
use crate::threshold::Threshold;

/// What each service of the program is to serve, by its place; `None` where it is not wanted.
pub(crate) type Sites = Vec<Option<Arc<dyn Site>>>;

/// What a lane starts with.
pub(crate) struct Boot {
    pub(crate) sites: Sites,
    pub(crate) volumes: VolumeTable,
    /// What is served to nobody.
    pub(crate) withheld: Arc<Withheld>,
    pub(crate) listeners: Vec<LaneListener>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) threshold: Arc<Threshold>,
    pub(crate) loads: Loads,
    pub(crate) control: Orders,
    pub(crate) news: Teller,
    pub(crate) blocks: Blocks,
    pub(crate) logs: LaneLogs,
    pub(crate) share: Arc<RateShare>,
    pub(crate) mark: Mark,
    pub(crate) seed: u64,
}

/// From the control thread to a lane.
pub(crate) enum Control {
    /// Make ready to serve this, and say whether it can be done; serve as before until the verdict.
    Prepare(Box<Order>),
    /// The verdict on what was prepared has been given. It stands in [`Order::verdict`]: this only wakes the lane.
    Decided,
    /// Listen at these too; a listener with the same id is replaced.
    Listen(Vec<LaneListener>),
    /// Take what waits at the listeners, which get nothing new, then close them. Connections end as they become idle.
    StopListening,
    /// Judge by this where connections belong.
    Place(Arc<Placement>),
    /// Mark the packets of every connection so, open ones too.
    Mark(Mark),
    /// Take no more connections, end those there are within this time.
    Drain(Duration),
}

/// From a lane to the control thread.
#[derive(Debug)]
pub(crate) enum News {
    /// The lane serves.
    Serving,
    /// It cannot do what it was told.
    Failed(String),
    /// It can serve the order of this number, or cannot.
    Prepared { lane: usize, order: u64, outcome: Result<(), String> },
    /// It serves the order of this number.
    Switched { lane: usize, order: u64 },
    /// A listener ended though nobody told it to.
    ListenerDied { lane: usize, problem: String },
    /// [`Control::StopListening`] is done.
    StoppedListening { lane: usize },
    /// It has ended, with this many connections cut.
    Ended { cut: usize },
}

/// The main future of a lane.
pub(crate) async fn lane_main(spec: LaneSpec, mut boot: Boot) {
    let lane = lane::current();
    let (id, silo) = (lane.id().0, lane.silo().0);
    boot.blocks.add("lane", id, silo, Arc::clone(lane.counters()) as _);
    let silo_counters = Arc::new(SiloCounters::default());
    boot.blocks.add("silo", id, silo, Arc::clone(&silo_counters) as _);
    boot.blocks.add("rate", id, silo, Arc::clone(&boot.share.usage) as _);
    let ended = EndedGuard::new(boot.news.clone());
    let keeper = boot.threshold.keeper(spec.id);

    let services = match LaneServices::start(&mut boot) {
        Ok(services) => services,
        Err(problem) => return boot.news.tell(News::Failed(problem)),
    };
    mark(&services, &silo_counters, boot.mark);
    boot.threshold.cross(keeper, &services).await;
    let (outgoing, incoming) = ways(lane.mesh(), spec.id);
    let (placement, counters) = (Arc::clone(&boot.placement), Arc::clone(&silo_counters));
    let several_nodes = placement.is_open();
    let door = Door::new(spec.node, placement, outgoing, boot.loads.clone(), counters);
    let (at_door, serving, incoming) =
        (Rc::clone(&door), Rc::clone(&services), Rc::new(RefCell::new(incoming)));
    let take_in = move || Rc::clone(&at_door).take_in(Rc::clone(&serving), Rc::clone(&incoming));
    lane::essential("hand-over of connections", take_in).detach();
    if several_nodes {
        let (loads, counters) = (boot.loads.clone(), Arc::clone(&silo_counters));
        let measure = move || loads.clone().keep_measuring(spec.id, Arc::clone(&counters));
        lane::essential("measure of the lane's load", measure).detach();
    }
    let news = boot.news.clone();
    let counters = Arc::clone(&silo_counters);
    let listening = Listening::new(spec.id, Rc::clone(&services), Rc::clone(&door), counters, news);
    if let Err(error) = listening.add(std::mem::take(&mut boot.listeners)) {
        return boot.news.tell(News::Failed(error.to_string()));
    }
    let logging = Rc::clone(&services);
    lane::essential("flush of the access log", move || Rc::clone(&logging).keep_logs_fresh()).detach();
    boot.news.tell(News::Serving);
    obey(boot, &services, &door, &listening, &silo_counters, ended).await;
}

async fn obey(
    mut boot: Boot,
    services: &Rc<LaneServices>,
    door: &Door,
    listening: &Rc<Listening>,
    silo_counters: &Arc<SiloCounters>,
    ended: EndedGuard,
) {
    let mut preparation = None;
    // Without a control thread there is nobody left to serve for.
    while let Some(control) = boot.control.recv().await {
        Preparation::settle(&mut preparation, listening, &boot.news);
        match control {
            Control::Prepare(order) => {
                let number = order.number;
                let prepared = Preparation::new(*order, services);
                let outcome = prepared.as_ref().map(|_| ()).map_err(Clone::clone);
                preparation = prepared.ok();
                boot.news.tell(News::Prepared { lane: listening.lane(), order: number, outcome });
                // A bell overtakes mail: another lane's refusal may have decided while this one still made ready.
                Preparation::settle(&mut preparation, listening, &boot.news);
            }
            Control::Decided => {}
            Control::Listen(listeners) => {
                if let Err(error) = listening.add(listeners) {
                    boot.news.tell(News::Failed(error.to_string()));
                }
            }
            Control::StopListening => {
                let listening = Rc::clone(listening);
                let stopping = async move {
                    listening.stop().await;
                    Ended::Done
                };
                lane::vital("end of its listeners", stopping).detach();
            }
            Control::Place(placement) => door.set_placement(placement),
            Control::Mark(new) => mark(services, silo_counters, new),
            Control::Drain(patience) => {
                let following = follow_marks(boot.control, Rc::clone(services), Arc::clone(silo_counters));
                lane::spawn(following).detach();
                let cut = services.drain(time::now() + patience).await;
                ended.cut.store(cut, Ordering::Relaxed);
                // What another program changes while no server runs has a later time than what was changed here.
                time::sleep(vfs::SETTLES_IN).await;
                return boot.threshold.leave(services).await;
            }
        }
    }
}

/// What is left to obey while transfers come to their ends: links may still be lost.
async fn follow_marks(mut control: Orders, services: Rc<LaneServices>, counters: Arc<SiloCounters>) {
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

/// Tells of the lane's end however it comes: as the main future ends or panics, or with the thread, where the ring fails and the future is
/// dropped no more.
struct EndedGuard {
    cut: Arc<AtomicUsize>,
}

impl EndedGuard {
    fn new(news: Teller) -> Self {
        let cut = Arc::<AtomicUsize>::default();
        LAST_WORD.set(Some(LastWord { news, cut: Arc::clone(&cut) }));
        Self { cut }
    }
}

impl Drop for EndedGuard {
    fn drop(&mut self) {
        // Nothing is left to be told where the thread is ending.
        let _ = LAST_WORD.try_with(|word| word.take());
    }
}

struct LastWord {
    news: Teller,
    cut: Arc<AtomicUsize>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.news.tell(News::Ended { cut: self.cut.load(Ordering::Relaxed) });
    }
}

thread_local! {
    /// Said once, at the latest as the thread ends.
    static LAST_WORD: RefCell<Option<LastWord>> = const { RefCell::new(None) };
}
