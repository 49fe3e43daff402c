//! What runs on every lane: the services, and the ear for the control thread.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::log::LaneLog;
use http::service::{HttpCounters, Service};
use http::tls::KtlsPolicy;
use lane::mailbox::Receiver;
use lane::net::TcpListener;
use lane::{Task, time};
use tokio::sync::mpsc::UnboundedSender;
use vfs::{Cache, CacheOptions};

use crate::listeners::{LaneListener, ListenerId};
use crate::metrics::Blocks;
use crate::site::SiteSpec;

/// What a lane starts with.
pub(crate) struct Boot {
    pub(crate) site: SiteSpec,
    pub(crate) listeners: Vec<LaneListener>,
    pub(crate) control: Receiver<Control>,
    pub(crate) news: UnboundedSender<News>,
    pub(crate) blocks: Blocks,
    pub(crate) log: Option<LaneLog>,
    pub(crate) ktls: KtlsPolicy,
    pub(crate) seed: u64,
}

/// From the control thread to a lane.
pub(crate) enum Control {
    /// Serve this from the next request on, stop listening at `close`, begin at `listeners`.
    Reload { site: Box<SiteSpec>, listeners: Vec<LaneListener>, close: Vec<ListenerId> },
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
    /// It has ended, with this many connections cut.
    Ended { cut: usize },
}

/// The main future of a lane.
pub(crate) async fn lane_main(mut boot: Boot) {
    let lane = lane::current();
    let cache = Cache::new(CacheOptions::default());
    let counters = Arc::new(HttpCounters::default());
    let (id, silo) = (lane.id().0, lane.silo().0);
    boot.blocks.add("lane", id, silo, Arc::clone(lane.counters()) as _);
    boot.blocks.add("http", id, silo, Arc::clone(&counters) as _);
    boot.blocks.add("vfs", id, silo, Arc::clone(cache.counters()) as _);
    let ended = EndedGuard { news: boot.news.clone(), cut: 0 };

    let site = match boot.site.open(&cache) {
        Ok(site) => site,
        Err(error) => return tell(&boot.news, News::Failed(error.to_string())),
    };
    let service = Service::new(site, counters, boot.log.take(), boot.ktls, Arc::default(), boot.seed);
    let mut listening = Listening { service: Rc::clone(&service), tasks: HashMap::new() };
    if let Err(error) = listening.add(std::mem::take(&mut boot.listeners)) {
        return tell(&boot.news, News::Failed(error.to_string()));
    }
    lane::spawn(Rc::clone(&service).keep_log_fresh()).detach();
    tell(&boot.news, News::Serving);
    obey(&mut boot, &service, &cache, &mut listening, ended).await;
}

async fn obey(
    boot: &mut Boot,
    service: &Rc<Service>,
    cache: &Cache,
    listening: &mut Listening,
    mut ended: EndedGuard,
) {
    // Without a control thread there is nobody left to serve for.
    while let Some(control) = boot.control.recv().await {
        match control {
            Control::Reload { site, listeners, close } => match site.open(cache) {
                Ok(site) => {
                    service.reload(site);
                    close.iter().for_each(|id| listening.remove(*id));
                    if let Err(error) = listening.add(listeners) {
                        tell(&boot.news, News::Failed(error.to_string()));
                    }
                }
                Err(error) => tell(&boot.news, News::Failed(error.to_string())),
            },
            Control::Drain(patience) => {
                ended.cut = service.drain(time::now() + patience).await;
                return;
            }
        }
    }
}

/// The accepting tasks.
struct Listening {
    service: Rc<Service>,
    tasks: HashMap<ListenerId, Task<()>>,
}

impl Listening {
    fn add(&mut self, listeners: Vec<LaneListener>) -> std::io::Result<()> {
        for LaneListener { id, role, socket } in listeners {
            let listener = TcpListener::adopt(socket)?;
            let task = lane::spawn(Rc::clone(&self.service).listen(listener, role));
            self.tasks.insert(id, task);
        }
        Ok(())
    }

    fn remove(&mut self, id: ListenerId) {
        // Dropping the task closes the listener; connections that were accepted go on.
        self.tasks.remove(&id);
    }
}

/// Tells of the lane's end however it comes, a panic included.
struct EndedGuard {
    news: UnboundedSender<News>,
    cut: usize,
}

impl Drop for EndedGuard {
    fn drop(&mut self) {
        tell(&self.news, News::Ended { cut: self.cut });
    }
}

fn tell(news: &UnboundedSender<News>, what: News) {
    // The control thread is gone only when the process ends.
    let _ = news.send(what);
}
