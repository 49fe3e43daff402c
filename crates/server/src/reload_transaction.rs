//! Change of what all lanes serve, which happens on every lane or on none.
//!
//! The control thread gives each lane an [`PrepareRequest`]. A lane makes everything ready that can fail (its volumes opened,
//! its listeners taken over) and answers. Once all have, the control thread gives the verdict, one word that all
//! orders share, so that no lane's full box can keep it from a lane; then each lane switches, which cannot fail. One
//! refusal, one lane that is silent for [`PREPARED_WITHIN`], one lane whose box is full: the verdict is no, and every
//! lane serves on as before.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use service::Switch;
use service::volumes::VolumeTable;
use tokio::time::Instant;

use crate::control::{EventSender, LaneControl};
use crate::lane_messages::{CommitDecision, Control, LaneEvent, PrepareRequest, Sites};
use crate::lane_services::LaneServices;
use crate::listeners::{LaneListener, ListenerId};
use crate::listening::{Adopted, Listening};

/// Reload that one lane has prepared and can switch to at once.
pub(crate) struct Preparation {
    number: u64,
    switch: Switch,
    listeners: Adopted,
    close: Vec<ListenerId>,
    decision: Arc<CommitDecision>,
}

/// Reload in two phases, as the control thread sees it: which lanes have prepared, and which have switched.
#[derive(Debug)]
pub(crate) struct ReloadTransaction {
    number: u64,
    decision: Arc<CommitDecision>,
    phase: TransactionPhase,
    /// Lanes that have not answered in this phase.
    silent: BTreeSet<usize>,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionPhase {
    Preparing,
    Switching,
}

/// State of a reload after a lane has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionState {
    /// Other lanes have yet to answer.
    Waits,
    /// Every lane is ready: the verdict can be given.
    Ready,
    /// The reload cannot be done, for this reason.
    Refused(String),
    /// Every lane serves the new order.
    Done,
}

impl Preparation {
    /// Prepares an order: does everything that can fail. What the lane serves is untouched.
    pub(crate) fn new(order: PrepareRequest, services: &Rc<LaneServices>) -> Result<Self, String> {
        let PrepareRequest { number, sites, volumes, listeners, close, decision } = order;
        let switch = services.prepare(&sites, &volumes)?;
        let listeners =
            Adopted::new(listeners).map_err(|error| format!("cannot take a listener: {error}"))?;
        Ok(Self { number, switch, listeners, close, decision })
    }

    /// Follows the verdict, once it was given.
    pub(crate) fn settle(preparation: &mut Option<Self>, listening: &Rc<Listening>, events: &EventSender) {
        let decision = preparation.as_ref().and_then(|preparation| preparation.decision.get());
        let Some(carry_out) = decision else { return };
        let Some(Self { number, switch, listeners, close, .. }) = preparation.take() else { return };
        if carry_out {
            switch();
            close.iter().for_each(|id| listening.remove(*id));
            listening.accept(listeners);
            events.send(LaneEvent::Switched { lane: listening.lane(), order: number });
        }
    }
}

impl ReloadTransaction {
    /// Sends every lane its order: sites, volumes and the lane's own listeners.
    ///
    /// # Errors
    /// A lane whose box is full. Those that have their orders drop them.
    pub(crate) fn begin(
        number: u64,
        controls: &[LaneControl],
        (sites, volumes): (&Sites, &VolumeTable),
        listeners: Vec<Vec<LaneListener>>,
        close: &[ListenerId],
    ) -> Result<Self, String> {
        let decision = Arc::<CommitDecision>::default();
        let silent = (0..controls.len()).collect();
        let deadline = Instant::now() + PREPARED_WITHIN;
        let transaction = Self {
            number,
            decision: Arc::clone(&decision),
            phase: TransactionPhase::Preparing,
            silent,
            deadline,
        };
        for (lane, listeners) in listeners.into_iter().enumerate() {
            let (sites, volumes) = (sites.clone(), volumes.clone());
            let (close, decision) = (close.to_vec(), Arc::clone(&decision));
            let order = PrepareRequest { number, sites, volumes, listeners, close, decision };
            if controls[lane].send(Control::Prepare(Box::new(order))).is_err() {
                transaction.drop_orders(controls);
                return Err(format!("lane {lane} is too busy to hear of it"));
            }
        }
        Ok(transaction)
    }

    /// Takes a lane's answer that it is ready, or cannot be.
    pub(crate) fn prepared(
        &mut self,
        lane: usize,
        order: u64,
        outcome: Result<(), String>,
    ) -> TransactionState {
        if order != self.number || self.phase != TransactionPhase::Preparing {
            return TransactionState::Waits;
        }
        if let Err(problem) = outcome {
            return TransactionState::Refused(format!("lane {lane}: {problem}"));
        }
        self.silent.remove(&lane);
        if self.silent.is_empty() { TransactionState::Ready } else { TransactionState::Waits }
    }

    /// Takes a lane's answer that it serves the order.
    pub(crate) fn switched(&mut self, lane: usize, order: u64) -> TransactionState {
        if order != self.number || self.phase != TransactionPhase::Switching {
            return TransactionState::Waits;
        }
        self.silent.remove(&lane);
        if self.silent.is_empty() { TransactionState::Done } else { TransactionState::Waits }
    }

    /// Returns when [`ReloadTransaction::late`] is to be called.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Ends the time for answers. Before the verdict that is a refusal; after it, the lanes that are late
    /// will switch when they next look up, and the transaction does not wait for them.
    pub(crate) fn late(&self) -> TransactionState {
        let lanes = &self.silent;
        match self.phase {
            TransactionPhase::Preparing => TransactionState::Refused(format!(
                "no answer within {} s from lanes {lanes:?}",
                PREPARED_WITHIN.as_secs()
            )),
            TransactionPhase::Switching => {
                //@ cause: After a reload some lanes (threads) had not switched to the new configuration within the time for it, as when a
                //@ disk keeps them waiting.
                //@ remedy: Look at the load of the machine and at its disks. The lanes switch by themselves as soon as they run again.
                tracing::error!(
                    ?lanes,
                    "configuration: {} lanes still serve the old one after a reload, as they are busy; their clients notice no more than \
                     that; look at load and disks if it lasts [reload-late]",
                    lanes.len()
                );
                TransactionState::Done
            }
        }
    }

    /// Gives the verdict to commit.
    pub(crate) fn carry_out(&mut self, controls: &[LaneControl]) {
        self.phase = TransactionPhase::Switching;
        self.silent = (0..controls.len()).collect();
        self.deadline = Instant::now() + SWITCHED_WITHIN;
        self.decision.give(true);
        ring(controls);
    }

    /// Gives the verdict to abort, unless one was given.
    pub(crate) fn drop_orders(&self, controls: &[LaneControl]) {
        if self.phase == TransactionPhase::Preparing {
            self.decision.give(false);
            ring(controls);
        }
    }
}

fn ring(controls: &[LaneControl]) {
    controls.iter().for_each(LaneControl::ring);
}

//@ limit: descriptors and time for a reload
//@ section: Logs, control and descriptors
//@ unit: time
//@ all: process: {}
//@ empty: the reload is refused; new addresses refuse connections until every lane is ready
//@ counter: server_reloads{outcome="refused"}
//@ attack: none, an administrator's orders
//@ reach: server
/// Longest time to prepare: a directory that takes longer to open is on a disk that does not answer.
const PREPARED_WITHIN: Duration = Duration::from_secs(10);
/// Longest time to switch, which waits for nothing but the lane's turn.
const SWITCHED_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use crate::control::{ControlReceiver, controls};

    use super::*;

    fn lanes() -> (Vec<LaneControl>, Vec<ControlReceiver>) {
        controls(3, 2)
    }

    fn begin(controls: &[LaneControl]) -> Result<ReloadTransaction, String> {
        let listeners = controls.iter().map(|_| Vec::new()).collect();
        ReloadTransaction::begin(7, controls, (&Vec::new(), &VolumeTable::default()), listeners, &[])
    }

    fn order(orders: &mut ControlReceiver) -> Box<PrepareRequest> {
        match orders.try_recv() {
            Some(Control::Prepare(order)) => order,
            _ => panic!("the lane has no order"),
        }
    }

    #[test]
    fn nobody_switches_before_the_last_lane_is_ready_and_the_verdict_needs_no_room() {
        let (controls, mut receivers) = lanes();
        let mut transaction = begin(&controls).unwrap();
        let orders: Vec<_> = receivers.iter_mut().map(order).collect();
        assert_eq!(transaction.prepared(0, 7, Ok(())), TransactionState::Waits);
        assert_eq!(transaction.prepared(0, 7, Ok(())), TransactionState::Waits, "one lane counts once");
        assert_eq!(transaction.prepared(1, 6, Err("of an older round".into())), TransactionState::Waits);
        assert_eq!(transaction.prepared(1, 7, Ok(())), TransactionState::Waits);
        assert!(orders.iter().all(|order| order.decision.get().is_none()));
        assert_eq!(transaction.prepared(2, 7, Ok(())), TransactionState::Ready);
        while controls[1].send(Control::StopListening).is_ok() {}
        transaction.carry_out(&controls);
        assert!(orders.iter().all(|order| order.decision.get() == Some(true)));
        assert_eq!(transaction.switched(0, 7), TransactionState::Waits);
        assert_eq!(transaction.switched(2, 7), TransactionState::Waits);
        assert_eq!(transaction.switched(1, 7), TransactionState::Done);
    }

    #[test]
    fn a_full_box_refuses_the_round_for_the_lanes_that_had_room_too() {
        let (controls, mut receivers) = lanes();
        while controls[2].send(Control::StopListening).is_ok() {}
        let problem = begin(&controls).unwrap_err();
        assert!(problem.contains("lane 2"), "{problem}");
        assert_eq!(order(&mut receivers[0]).decision.get(), Some(false));
        assert_eq!(order(&mut receivers[1]).decision.get(), Some(false));
    }

    #[test]
    fn one_lane_that_cannot_and_one_that_is_silent_refuse_it_for_all() {
        let (controls, mut receivers) = lanes();
        let mut transaction = begin(&controls).unwrap();
        let orders: Vec<_> = receivers.iter_mut().map(order).collect();
        assert_eq!(transaction.prepared(0, 7, Ok(())), TransactionState::Waits);
        assert_eq!(
            transaction.prepared(2, 7, Err("no".into())),
            TransactionState::Refused("lane 2: no".into())
        );
        assert_eq!(
            transaction.late(),
            TransactionState::Refused("no answer within 10 s from lanes {1, 2}".into())
        );
        transaction.drop_orders(&controls);
        assert!(orders.iter().all(|order| order.decision.get() == Some(false)));
    }
}
