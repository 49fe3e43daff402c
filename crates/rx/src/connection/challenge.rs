//! CHALLENGE and RESPONSE, at once or when a helper has an answer, and the expiry of the proof.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::{Connection, Control};
use crate::abort;
use crate::event::Side;
use crate::header::HEADER_LEN;
use crate::security::{ConnectionContext, RESPONSE_MAX, Security, SecurityError, Surroundings};
use crate::shared::Shared;

impl Connection {
    /// Asks the client for its identity (server side).
    pub(super) fn challenge(&mut self, now: Instant, retry: Duration, shared: &mut Shared) {
        let mut question = Vec::new();
        self.core.security.challenge(&mut shared.surroundings(now), &mut question);
        let validation = &mut self.core.validation;
        if !validation.reached && validation.budget < (HEADER_LEN + question.len()) as u64 {
            // The client's next packet, or its answer to the probe, pays for it.
            shared.stats.amplification_limited += 1;
            validation.challenge_at = None;
            validation.wanted = true;
            return;
        }
        validation.challenge_at = Some(now + retry);
        validation.challenges += 1;
        if validation.challenges > CHALLENGES_MAX {
            self.fail(abort::CALL_DEAD, shared);
        } else {
            self.queue_control(Control::Challenge(question), shared);
        }
    }

    /// Takes the client's RESPONSE (server side).
    pub(super) fn on_response(&mut self, now: Instant, payload: &[u8], shared: &mut Shared) {
        let validation = &self.core.validation;
        if validation.authentic
            || validation.challenges == 0
            || validation.checking
            || payload.len() > RESPONSE_MAX
        {
            shared.stats.misplaced += 1;
            return;
        }
        let verdict = self.check(now, shared, |security, around, context, waker| {
            security.check_response(around, context, payload, waker)
        });
        if let Some(verdict) = verdict {
            self.on_verdict(now, verdict, shared);
        }
        shared.mark_ready(&mut self.core);
    }

    /// Answers the server's CHALLENGE (client side). The server repeats the question until an answer arrives,
    /// so nothing is remembered.
    pub(super) fn on_challenge(&mut self, now: Instant, payload: &[u8], shared: &mut Shared) {
        if self.core.validation.checking {
            shared.stats.misplaced += 1;
            return;
        }
        let mut response = Vec::new();
        let outcome = self.check(now, shared, |security, around, context, waker| {
            security.respond(around, context, payload, waker, &mut response)
        });
        if let Some(outcome) = outcome {
            self.on_answer(outcome, response, shared);
        }
    }

    /// Runs a `step` of the security class, if a place is free. `None` if there is not, or the step takes its
    /// time: [`poll_check`](Self::poll_check) goes on with it.
    fn check<T>(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        step: impl FnOnce(&mut dyn Security, &mut Surroundings<'_>, &ConnectionContext, &Waker) -> Poll<T>,
    ) -> Option<T> {
        if !self.may_check(shared) {
            return None;
        }
        let (handle, context) = (self.core.handle(), self.context());
        let answer = shared.checks.answer(handle);
        let waker = Waker::from(answer.clone());
        match step(&mut *self.core.security, &mut shared.surroundings(now), &context, &waker) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => {
                shared.checks.begin(handle, self.core.remote.ip(), &answer);
                self.core.validation.checking = true;
                self.core.validation.challenge_at = None;
                None
            }
        }
    }

    /// Continues a step of the security class that was woken and may be done.
    pub(crate) fn poll_check(&mut self, now: Instant, shared: &mut Shared) {
        if !self.core.validation.checking {
            return;
        }
        let context = self.context();
        let waker = Waker::from(shared.checks.answer(self.core.handle()));
        let around = &mut shared.surroundings(now);
        match self.core.side {
            Side::Server => {
                if let Poll::Ready(verdict) = self.core.security.poll_check(around, &waker) {
                    self.end_check(shared);
                    self.on_verdict(now, verdict, shared);
                }
            }
            Side::Client => {
                let mut response = Vec::new();
                let polled = self.core.security.poll_respond(around, &context, &waker, &mut response);
                if let Poll::Ready(outcome) = polled {
                    self.end_check(shared);
                    self.on_answer(outcome, response, shared);
                }
            }
        }
        shared.mark_ready(&mut self.core);
    }

    pub(super) fn end_check(&mut self, shared: &mut Shared) {
        if std::mem::take(&mut self.core.validation.checking) {
            shared.checks.end(self.core.handle());
        }
    }

    /// Returns when the proof expires; `None` if it does not, or has.
    pub(super) fn expires_at(&self, shared: &Shared) -> Option<Instant> {
        let expiry = self.core.expiry.filter(|_| self.core.error.is_none())?;
        shared.instant_of(expiry.unix)
    }

    /// Ends the connection if its proof has expired.
    pub(super) fn expire(&mut self, now: Instant, shared: &mut Shared) {
        if let Some(at) = self.expires_at(shared)
            && at <= now
            && let Some(expiry) = self.core.expiry
        {
            shared.stats.connections_expired += 1;
            self.fail(expiry.code, shared);
            self.queue_control(Control::Abort { channel: 0, call: 0, code: expiry.code }, shared);
        }
    }

    /// Returns whether the security class may begin a check. Answers can be made up in any client's name, and a check
    /// costs far more than the packet. So addresses that have not shown to be there have half of the places, and are
    /// asked by a probe once those are taken.
    fn may_check(&mut self, shared: &mut Shared) -> bool {
        let (address, proved) = (self.core.remote.ip(), self.core.validation.reached);
        let free = shared.checks.has_room(address, proved, shared.config.checks_max);
        if !free {
            shared.stats.checks_refused += 1;
            if !self.core.validation.reached {
                self.core.validation.wanted = true;
                self.core.validation.challenge_at = None;
                shared.mark_ready(&mut self.core);
            }
        }
        free
    }

    fn on_verdict(&mut self, now: Instant, verdict: Result<[u32; 4], SecurityError>, shared: &mut Shared) {
        match verdict {
            Ok(calls) => {
                self.core.expiry = self.core.security.expiry();
                self.expire(now, shared);
                if self.core.error.is_some() {
                    return;
                }
                self.end_older_calls(calls, shared);
                self.core.validation.authentic = true;
                self.core.validation.challenge_at = None;
                self.on_reached(now, shared);
                self.open_held_calls(shared);
                self.try_deliver(now, shared);
            }
            Err(error) => {
                shared.stats.bad_responses += 1;
                self.fail(error.code, shared);
                self.queue_control(Control::Abort { channel: 0, call: 0, code: error.code }, shared);
            }
        }
    }

    fn on_answer(&mut self, outcome: Result<(), SecurityError>, response: Vec<u8>, shared: &mut Shared) {
        match outcome {
            Ok(()) if response.len() > RESPONSE_MAX => {
                shared.stats.responses_too_large += 1;
                self.fail(abort::MESSAGE_SIZE, shared);
            }
            Ok(()) => {
                self.core.expiry = self.core.security.expiry();
                self.control.retain(|control| !matches!(control, Control::Response(_)));
                self.queue_control(Control::Response(response), shared);
            }
            Err(error) => {
                shared.stats.security_refusals += 1;
                if error.code != abort::PROTOCOL_ERROR {
                    self.fail(error.code, shared);
                }
            }
        }
    }
}

/// Unanswered challenges before the connection is given up (OpenAFS).
const CHALLENGES_MAX: u32 = 50;
