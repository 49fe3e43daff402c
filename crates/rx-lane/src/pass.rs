//! Driver's task: receives a batch, lets calls run, sends once.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lane::backend::{Datagram, DatagramBatch};
use lane::time::Sleep;

use crate::handover::{LaneGroupLink, Mail};
use crate::intake::{DatagramRun, Intake};
use crate::moderation::{Moderation, TrafficCounts};
use crate::state::{DriverShared, DriverState};
use crate::time_of_day;
use rx::{Arrival, Endpoint, Transmit};
use rxdebug::LaneDesk;

/// Runs the driver until it is closed.
pub(super) async fn run(shared: Rc<DriverShared>, link: LaneGroupLink, gather: Duration) {
    let mut pass = Pass {
        shared,
        desk: LaneDesk::new(lane::time::now(), link.lane(), link.lanes()),
        link,
        time_told: None,
        received: Vec::with_capacity(RECEIVES_PER_PASS),
        mail: Vec::new(),
        blocked: None,
        sleep: lane::time::sleep_until(lane::time::now()),
        moderation: Moderation::new(lane::time::now(), gather),
        progress: false,
        idle: Idle::default(),
    };
    loop {
        poll_fn(|cx| pass.poll_work(cx)).await;
        if pass.shared.is_closed() {
            return;
        }
        pass.take_in(lane::time::clock());
        pass.shared.dispatch();
        // Woken tasks read and write now, before the one transmit pass.
        lane::yield_now().await;
        pass.shared.dispatch();
        if pass.send_out() == PassEnd::Blocked {
            // An error shows again, and is counted, at the next send.
            let _ = pass.shared.socket.writable().await;
            // What it refused goes out now, whether or not anything else happens.
            pass.shared.kick();
        }
        pass.publish();
        pass.shared.end_pass();
        pass.moderate();
        pass.note_progress();
    }
}

struct Pass {
    shared: Rc<DriverShared>,
    link: LaneGroupLink,
    desk: LaneDesk,
    /// Time when the endpoint last got the time of day.
    time_told: Option<Instant>,
    received: Vec<Datagram>,
    mail: Vec<Mail>,
    /// Burst that the socket did not take, from this datagram on.
    blocked: Option<(Transmit, usize)>,
    sleep: Sleep,
    moderation: Moderation,
    /// True when this pass was kicked, took something in or sent something.
    progress: bool,
    idle: Idle,
}

/// State of passes that timers alone have caused and in which nothing happened.
#[derive(Debug, Default)]
struct Idle {
    /// Number of passes in a row after each of which a timer was due.
    passes: u32,
    /// Time before which no timer causes a pass.
    until: Option<Instant>,
}

impl Idle {
    /// Notes the end of a pass that ran the timers of `now`, with the next due at `due`. Returns whether the
    /// next pass is put off.
    fn after_pass(&mut self, now: Instant, progress: bool, due: Option<Instant>) -> bool {
        self.until = None;
        if progress || due.is_none_or(|at| at > now) {
            self.passes = 0;
            return false;
        }
        self.passes += 1;
        if self.passes < IDLE_PASSES_MAX {
            return false;
        }
        self.passes = 0;
        self.until = Some(now + IDLE_SLEEP);
        true
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.shared.end_services();
    }
}

/// Result of a transmit pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassEnd {
    /// All packets were sent.
    All,
    /// The socket takes no more packets.
    Blocked,
}

/// Result of one burst.
enum Burst {
    Gone,
    /// The burst is a path-MTU probe that the interface cannot carry.
    TooLarge,
    /// The socket took only this number of datagrams.
    Stuck(usize),
}

impl Pass {
    /// Returns ready when there are packets, a timer is due, or a call has done something.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ready = self.shared.was_kicked(cx.waker());
        match self.shared.socket.poll_recv(cx, &mut self.received, RECEIVES_PER_PASS) {
            Poll::Ready(Ok(())) => ready = true,
            // Mostly the network's word of an earlier datagram, which `take_in` asks for.
            Poll::Ready(Err(_)) => {
                self.shared.counters.receive_errors.increment();
                ready = true;
            }
            Poll::Pending => {}
        }
        ready |= self.link.poll_recv(cx, &mut self.mail, RECEIVES_PER_PASS).is_ready();
        let due = {
            let state = self.shared.state.borrow();
            state.endpoint.register_checks(cx.waker());
            state.deadline()
        };
        self.progress |= ready;
        if let Some(at) = due.map(|at| self.idle.until.map_or(at, |until| at.max(until))) {
            if self.sleep.deadline() != at {
                self.sleep.reset(at);
            }
            ready |= Pin::new(&mut self.sleep).poll(cx).is_ready();
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Feeds all received packets to the endpoint.
    fn take_in(&mut self, now: Instant) {
        self.shared.now.set(now);
        let mut state = self.shared.state.borrow_mut();
        let mut intake = Intake {
            now,
            endpoint: &mut state.endpoint,
            desk: &mut self.desk,
            link: &mut self.link,
            counters: &self.shared.counters,
        };
        for (taken, datagram) in self.received.drain(..).enumerate() {
            if taken > 0 && taken % RECEIVES_PER_CLOCK == 0 {
                intake.now = lane::time::clock();
            }
            let Datagram { from, local, segment, .. } = datagram;
            let segment = usize::from(segment.max(1));
            intake.take(
                &DatagramRun { remote: from, local, segment, bytes: &datagram.buf, hops: 0 },
                Arrival::Steered,
            );
        }
        self.mail.drain(..).for_each(|mail| intake.take_mail(mail));
        while let Some(report) = self.shared.socket.try_take_unreachable() {
            intake.take_unreachable(report);
        }
        intake.post();
        let now = intake.now;
        self.shared.now.set(now);
        if self.time_told.is_none_or(|told| now >= told + TIME_OF_DAY_EVERY) {
            self.time_told = Some(now);
            state.endpoint.set_time_of_day(now, time_of_day());
        }
        if let Some(share) = &mut *self.shared.share.borrow_mut() {
            share.apply(now, &mut state.endpoint);
        }
        state.endpoint.handle_checks(now);
        if state.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            let held =
                |endpoint: &Endpoint| (endpoint.connection_count(), endpoint.stats().calls_under_way());
            let before = held(&state.endpoint);
            state.endpoint.handle_timeout(now);
            // Where calls die in a row, each pass has some that nothing is sent for.
            self.progress |= held(&state.endpoint) != before;
        }
        state.close_due(now);
    }

    /// Runs the transmit pass. A long one pauses for receiving and goes on in the next pass.
    fn send_out(&mut self) -> PassEnd {
        let mut state = self.shared.state.borrow_mut();
        for _ in 0..TRANSMITS_PER_PASS {
            // Read for each burst: a pass may take milliseconds, and round trips are measured from here.
            let now = lane::time::clock();
            let next = self.blocked.take().or_else(|| Some((state.endpoint.poll_transmit(now)?, 0)));
            let Some((transmit, done)) = next else { return PassEnd::All };
            match self.send(&state, &transmit, done) {
                Burst::Gone => {
                    self.progress = true;
                    state.endpoint.transmit_done(transmit);
                }
                Burst::TooLarge => {
                    state.endpoint.probe_refused(now, &transmit);
                    state.endpoint.transmit_done(transmit);
                }
                Burst::Stuck(done) => {
                    self.shared.counters.send_blocked.increment();
                    self.blocked = Some((transmit, done));
                    return PassEnd::Blocked;
                }
            }
        }
        drop(state);
        self.shared.kick();
        PassEnd::All
    }

    /// Sends a burst from datagram `done` on.
    fn send(&self, state: &DriverState, transmit: &Transmit, mut done: usize) -> Burst {
        while done < transmit.segments() {
            let parts = transmit.slices(state.endpoint.pool(), done);
            let batch = DatagramBatch {
                to: transmit.destination,
                from: transmit.src_ip,
                class: transmit.class,
                segment: u16::try_from(transmit.segment_size).unwrap_or(u16::MAX),
                dont_fragment: transmit.dont_fragment,
                parts: &parts,
            };
            match self.shared.socket.try_send(&batch) {
                Ok(Some(sent)) => done += sent.div_ceil(transmit.segment_size.max(1)).max(1),
                Ok(None) => return Burst::Stuck(done),
                Err(error) if transmit.dont_fragment && error.raw_os_error() == Some(EMSGSIZE) => {
                    return Burst::TooLarge;
                }
                Err(_) => {
                    self.shared.counters.send_errors.increment();
                    return Burst::Gone;
                }
            }
        }
        Burst::Gone
    }

    /// Makes the lane's next park wait for several packets where those of stock peers come fast.
    fn moderate(&mut self) {
        let seen = {
            let state = self.shared.state.borrow();
            let stats = state.endpoint.stats();
            let calls = stats.calls_opened + stats.calls_accepted;
            TrafficCounts {
                packets: stats.stock_received,
                calls,
                jumbograms: stats.jumbograms_sent,
                cut: stats.jumbograms_cut,
                under_way: stats.calls_under_way(),
            }
        };
        if let Some(wait) = self.moderation.after_pass(self.shared.now.get(), seen) {
            lane::time::gather(wait);
        }
    }

    /// Puts off the next pass after ones in which nothing happened, or the lane would do nothing else.
    fn note_progress(&mut self) {
        let progress = std::mem::take(&mut self.progress);
        let (now, due) = (self.shared.now.get(), self.shared.state.borrow().deadline());
        if self.idle.after_pass(now, progress, due) {
            self.shared.counters.passes_idle.increment();
            debug_assert!(
                false,
                "a timer of Rx is due after {IDLE_PASSES_MAX} passes in which nothing happened"
            );
        }
    }

    fn publish(&self) {
        let state = self.shared.state.borrow();
        let endpoint = &state.endpoint;
        self.shared.counters.publish(endpoint.stats(), endpoint.pool(), endpoint.connection_count());
    }
}

/// Receive buffers, each with up to 64 KiB of coalesced datagrams, taken in one pass.
const RECEIVES_PER_PASS: usize = 64;
/// Receive buffers taken between two looks at the clock.
const RECEIVES_PER_CLOCK: usize = 8;
/// Bursts sent before the socket is looked at again.
const TRANSMITS_PER_PASS: usize = 64;
/// Passes in a row in which nothing happens and a timer stays due, before the driver sleeps all the same.
const IDLE_PASSES_MAX: u32 = 16;
/// Time that the driver sleeps after passes without progress, though a timer stays due.
const IDLE_SLEEP: Duration = Duration::from_millis(5);
/// Interval at which the endpoint gets the time of day, which an operator may change.
const TIME_OF_DAY_EVERY: Duration = Duration::from_secs(1);
/// Error number of a datagram larger than the path's MTU (EMSGSIZE).
const EMSGSIZE: i32 = 90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_did_nothing_are_followed_by_sleep() {
        let (mut idle, now) = (Idle::default(), Instant::now());
        for _ in 1..IDLE_PASSES_MAX {
            assert!(!idle.after_pass(now, false, Some(now)));
        }
        assert!(idle.after_pass(now, false, Some(now)));
        assert_eq!(idle.until, Some(now + IDLE_SLEEP));
        assert!(!idle.after_pass(now, false, Some(now)), "counted anew");
        assert_eq!(idle.until, None);
    }

    #[test]
    fn passes_with_something_done_or_nothing_due_do_not_count() {
        let (mut idle, now) = (Idle::default(), Instant::now());
        for pass in 0..10 * IDLE_PASSES_MAX {
            let due = if pass % 2 == 0 { Some(now) } else { Some(now + IDLE_SLEEP) };
            assert!(!idle.after_pass(now, false, due) && !idle.after_pass(now, true, Some(now)));
        }
    }
}
