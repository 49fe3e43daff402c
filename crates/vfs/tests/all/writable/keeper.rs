//! A client of the AFS kind beside others: what it has read it keeps, until it is told or its promise runs out.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::Rights;
use lane::buffer::BufClass;
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{CallbackNotifier, Client, Error, Holder, Notice, NotifyFuture, NotifyOutcome, Volume};

use super::{nobody, path};

/// One client, which reads `page` on its lane.
pub(super) struct Keeper {
    volume: Volume,
    record: Arc<Client>,
    kept: RefCell<Option<Kept>>,
    /// Number of times that it has kept something, and been told.
    pub(super) seen: Cell<[u32; 2]>,
    me: RefCell<Weak<Keeper>>,
}

struct Kept {
    inode: u64,
    content: String,
    until: Instant,
}

const HOLDER: Holder = Holder(7000);
const LASTS: Duration = Duration::from_secs(20);

impl Keeper {
    pub(super) fn new(volume: &Volume) -> Rc<Self> {
        let record = volume.cache().client(HOLDER).unwrap();
        let (kept, seen, me) = (RefCell::default(), Cell::default(), RefCell::default());
        let keeper = Rc::new(Self { volume: volume.clone(), record, kept, seen, me });
        keeper.me.replace(Rc::downgrade(&keeper));
        keeper
    }

    pub(super) async fn run(self: Rc<Self>, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..10 {
            time::sleep(Duration::from_micros(rng.random_range(0..5000))).await;
            self.read().await;
        }
    }

    async fn read(&self) {
        let until = time::now() + LASTS;
        if self.volume.cache().flush_pending_breaks(&self.record).await.is_err() {
            return;
        }
        let caller = nobody().sparing(HOLDER);
        let look_with_callback =
            self.volume.lookup_with_callback(&caller, &self.record, path("page"), Rights::READ, until).await;
        let look_with_callback = match look_with_callback {
            Ok(look_with_callback) => look_with_callback,
            Err(Error::NotFound | Error::Unsettled | Error::Busy | Error::Locked) => return,
            Err(other) => panic!("{other}"),
        };
        let Ok((file, attributes)) = look_with_callback.resolved().clone().into_file() else { return };
        let buf = lane::current().buffers().get(BufClass::Small).await;
        let (read, buf) = file.read_at(0, 64, buf).await;
        read.unwrap();
        if look_with_callback.confirm().is_none() {
            return;
        }
        let in_flight_reply = look_with_callback.in_flight_reply();
        let content = String::from_utf8(buf.to_vec()).unwrap();
        self.kept.replace(Some(Kept { inode: attributes.id.ino, content, until }));
        self.saw(0);
        drop(in_flight_reply);
    }

    /// Checks that what it has kept is what the file with this inode holds.
    pub(super) fn check(&self, inode: u64, now: &str) {
        let kept = self.kept.borrow();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.until > time::now() && kept.inode == inode) {
            assert_eq!(kept.content, now, "who was promised to be told reads what was");
        }
    }

    fn saw(&self, what: usize) {
        let mut seen = self.seen.get();
        seen[what] += 1;
        self.seen.set(seen);
    }
}

impl CallbackNotifier for Keeper {
    fn knows(&self, holder: Holder) -> bool {
        holder == HOLDER
    }

    fn notify(&self, _: &Arc<Client>, _: Vec<Notice>) -> NotifyFuture {
        let me = self.me.borrow().clone();
        Box::pin(async move {
            time::sleep(Duration::from_micros(300)).await;
            let Some(me) = me.upgrade() else { return NotifyOutcome::NoReply };
            me.kept.take();
            me.saw(1);
            NotifyOutcome::Acknowledged
        })
    }
}
