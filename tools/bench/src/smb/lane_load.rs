//! The load of one lane: its part of the sessions and of their channels, and the actors that ask over them.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::Task;
use smb_client::{Channel, Channels, Error, Tree};

use smb_wire::Guid;

use super::actor::Actor;
use super::kills::Killer;
use super::options::{Load, Options, Work};
use super::report::Tally;
use super::session::{Board, Session, new_client};
use crate::Progress;
use crate::cpu::CpuClock;
use crate::share::Share;
use crate::start::StartLine;

/// Target of the load, found before it begins.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) length: u64,
    pub(super) sums: Option<Arc<Vec<Vec<u8>>>>,
    pub(super) run: u64,
    /// GUID of the client, where all sessions are one client's.
    pub(super) client: Guid,
    pub(super) board: Board,
}

pub(super) struct LaneLoad {
    pub(super) options: Options,
    pub(super) target: Target,
    pub(super) progress: Arc<Progress>,
    pub(super) share: Share,
}

impl LaneLoad {
    /// Works from when all lanes are ready until time is up.
    pub(super) async fn run(self, line: &Arc<StartLine>, finish: &Arc<StartLine>) -> Tally {
        let finished = finish.arrival();
        let tally = Rc::new(RefCell::new(Tally::default()));
        let arrival = line.arrival();
        let sessions = self.sign_in(&tally).await;
        let bound = self.bind(&tally).await;
        let groups = self.groups(&sessions, &bound);
        let actors = self.actors(&groups, &tally).await;
        drop(arrival);
        let began = line.wait().await;
        let cpu = (self.share.lane == 0).then(|| CpuClock::start(self.options.pid));
        let end = began + self.options.duration;
        if self.options.work == Work::Idle {
            lane::time::sleep_until(end).await;
        }
        let killers = self.killers(&sessions, bound, &groups, began);
        let idle = self.options.work == Work::Idle;
        let tasks: Vec<_> = actors
            .iter()
            .map(|actor| {
                let (actor, tally) = (Rc::clone(actor), Rc::clone(&tally));
                let progress = Arc::clone(&self.progress);
                lane::spawn(async move {
                    if idle {
                        once(&actor, &tally, &progress).await;
                    } else {
                        calls(&actor, end, &tally, &progress).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        tally.borrow_mut().elapsed = lane::time::now() - began;
        for killer in killers {
            tally.borrow_mut().kills += killer.await;
        }
        let mut done = tally.take();
        if let Some(cpu) = cpu {
            (done.server_cpu, done.client_cpu) = cpu.spent();
        }
        for actor in &actors {
            match lane::time::timeout(ENDING_MAX, actor.end()).await {
                Ok(Ok(verified)) => done.verified += u64::from(verified),
                Ok(Err(failure)) => done.count(failure.to_string()),
                Err(_) => done.count("the server does not answer at the end".to_owned()),
            }
        }
        for channels in groups.values() {
            done.wrong_signatures += channels.refused();
            done.replays += channels.replays();
        }
        // A session ends when no lane uses it any more.
        drop(finished);
        finish.wait().await;
        for (_, session) in &sessions {
            let _ = lane::time::timeout(FAREWELL, session.end()).await;
        }
        done
    }

    /// Signs in, so many at a time that none is refused for the others' sake. One that fails is counted.
    async fn sign_in(&self, tally: &RefCell<Tally>) -> Vec<(usize, Session)> {
        let mut sessions = Vec::with_capacity(self.share.clients.len());
        let numbers: Vec<usize> = self.share.clients.clone().collect();
        // One client's come all at once: that is what is looked at.
        let at_once = if self.options.one_client { usize::MAX } else { SIGN_INS_AT_ONCE };
        for some in numbers.chunks(at_once) {
            let starting: Vec<_> = some
                .iter()
                .map(|number| {
                    let (options, number) = (self.options.clone(), *number);
                    let client = if options.one_client { self.target.client } else { new_client() };
                    lane::spawn(async move { (number, timed(Session::open(&options, client)).await) })
                })
                .collect();
            for one in starting {
                let (number, (took, opened)) = one.await;
                let session = tally.borrow_mut().count_sign_in(took, opened);
                self.target.board.tell(number, session.as_ref());
                sessions.extend(session.map(|session| (number, session)));
            }
        }
        tally.borrow_mut().sessions = sessions.len();
        sessions
    }

    /// Returns which channels of a session this lane has: the first is on the lane where it signed in, each
    /// other on the lane behind the one before.
    fn mine(&self, session: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.share.lane_of(session, self.options.sessions);
        let Share { lane, lanes, .. } = self.share;
        (0..self.options.channels).filter(move |at| (first + at) % lanes == lane)
    }

    /// Binds the channels that this lane has beside those of sign-ins, and returns the share over each.
    async fn bind(&self, tally: &RefCell<Tally>) -> Vec<(usize, Tree)> {
        let channels = self.options.channels;
        let mut binding = Vec::new();
        for number in 0..if channels > 1 { self.options.sessions } else { 0 } {
            for channel in self.mine(number).filter(|channel| *channel > 0) {
                let (options, board) = (self.options.clone(), self.target.board.clone());
                binding.push(lane::spawn(async move {
                    (number * channels + channel, timed(board.bind(&options, number, channel)).await)
                }));
            }
        }
        let mut trees = Vec::new();
        for one in binding {
            let (number, (took, bound)) = one.await;
            let bound = tally.borrow_mut().count_sign_in(took, bound).flatten();
            trees.extend(bound.map(|tree| (number, tree)));
        }
        trees
    }

    /// Returns the channels of each session that this lane has some of.
    fn groups(&self, sessions: &[(usize, Session)], bound: &[(usize, Tree)]) -> Groups {
        let mut groups: Groups =
            sessions.iter().map(|(number, session)| (*number, session.channels.clone())).collect();
        for (number, tree) in bound {
            match groups.entry(number / self.options.channels) {
                Entry::Vacant(vacant) => drop(vacant.insert(self.options.channels_of(tree.clone()))),
                Entry::Occupied(there) => there.get().add(tree.clone()),
            }
        }
        groups
    }

    /// Makes the tasks that kill the channels of each session that this lane has.
    fn killers(
        &self,
        sessions: &[(usize, Session)],
        bound: Vec<(usize, Tree)>,
        groups: &Groups,
        began: Instant,
    ) -> Vec<Task<u64>> {
        let Some(every) = self.options.kill_every else { return Vec::new() };
        let of = self.options.channels;
        let mut mine: BTreeMap<usize, HashMap<usize, Channel>> = BTreeMap::new();
        let firsts =
            sessions.iter().filter_map(|(session, opened)| Some((session * of, opened.first.take()?)));
        let others = bound.into_iter().map(|(number, tree)| (number, tree.channel().clone()));
        for (number, channel) in firsts.chain(others) {
            mine.entry(number / of).or_default().insert(number % of, channel);
        }
        let killers = mine.into_iter().filter_map(|(session, mine)| {
            let (options, board) = (self.options.clone(), self.target.board.clone());
            let (is_down, channels) = (board.is_down(session)?, groups.get(&session)?.clone());
            Some(lane::spawn(Killer { options, board, is_down, session, mine, channels }.run(began, every)))
        });
        killers.collect()
    }

    /// Makes the actors: for each channel as many as requests are to be under way.
    async fn actors(&self, groups: &Groups, tally: &RefCell<Tally>) -> Vec<Rc<Actor>> {
        let (options, target) = (&self.options, &self.target);
        let load = Rc::new(Load {
            work: options.work,
            name: options.name.clone(),
            length: target.length,
            size: options.size,
            file_size: options.file_size.max(options.size.into()),
            verify: options.verify,
            sums: target.sums.clone(),
            run: target.run,
        });
        let depth = if options.work == Work::Idle { 1 } else { options.depth };
        let of = (options.sessions * options.channels * depth) as u64;
        let mut starting = Vec::new();
        for (session, channels) in groups {
            for at in self.mine(*session) {
                for step in 0..depth {
                    let actor = ((session * options.channels + at) * depth + step) as u64;
                    let (channels, load) = (channels.clone(), Rc::clone(&load));
                    starting.push(lane::spawn(async move { Actor::new(channels, load, actor, of).await }));
                }
            }
        }
        let mut actors = Vec::with_capacity(starting.len());
        for actor in starting {
            match actor.await {
                Ok(actor) => actors.push(Rc::new(actor)),
                Err(error) => tally.borrow_mut().count(error.to_string()),
            }
        }
        actors
    }
}

/// Channels by session.
type Groups = BTreeMap<usize, Channels>;

/// Returns how long a sign-in took, and what came of it; `None` is no answer.
async fn timed<T>(
    signing_in: impl Future<Output = Result<T, Error>>,
) -> (Duration, Option<Result<T, Error>>) {
    let began = Instant::now();
    let done = lane::time::timeout(SIGN_IN_MAX, signing_in).await.ok();
    (began.elapsed(), done)
}

/// Requests that follow one another until `end`.
async fn calls(actor: &Actor, end: Instant, tally: &RefCell<Tally>, progress: &Progress) {
    while lane::time::now() < end {
        // A request under way when time is up is waited for: what is measured ends with it.
        if !once(actor, tally, progress).await {
            // A server that is down must not be hammered.
            lane::time::sleep(RETRY_DELAY).await;
        }
    }
}

async fn once(actor: &Actor, tally: &RefCell<Tally>, progress: &Progress) -> bool {
    let asked = Instant::now();
    match lane::time::timeout(ANSWER_MAX, actor.call()).await {
        Ok(Ok(moved)) => {
            let mut tally = tally.borrow_mut();
            tally.latencies.record(asked.elapsed());
            tally.requests += 1;
            tally.sent += moved.sent;
            tally.received += moved.received;
            tally.verified += u64::from(moved.verified);
            progress.count(moved.sent + moved.received);
            return true;
        }
        Ok(Err(failure)) => tally.borrow_mut().count_failure(&failure),
        Err(_) => tally.borrow_mut().count("no answer".to_owned()),
    }
    progress.count_error();
    false
}

const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Sign-ins under way on a lane.
const SIGN_INS_AT_ONCE: usize = 64;
const SIGN_IN_MAX: Duration = Duration::from_secs(60);
/// Time for which an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Time for which an actor has at the end for its own file.
const ENDING_MAX: Duration = Duration::from_secs(60);
/// Time for which the answer to a good-bye is waited for.
const FAREWELL: Duration = Duration::from_secs(2);
