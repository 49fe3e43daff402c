//! One lane's desk: takes the questions that its endpoint was asked, and its part in those that were asked elsewhere.

use std::collections::VecDeque;
use std::time::Instant;

use rx::{Endpoint, TokenBucket};

use super::DebugRequest;
use super::desk::{Desk, Step};
use super::share::{Query, Share};
use super::survey::survey;

/// Answers DEBUG questions of one lane, with the desks of the other lanes that share its address.
#[derive(Debug)]
pub struct LaneDesk {
    lane: usize,
    desk: Desk,
    mail: VecDeque<(usize, DeskMail)>,
    /// Shares that other lanes are asked for.
    gather_bucket: TokenBucket,
    /// Shares given: each may cost a walk through a table.
    share_bucket: TokenBucket,
    limited: u64,
}

/// Mail between the desks of an address.
#[derive(Debug)]
pub struct DeskMail(Mail);

#[derive(Debug)]
enum Mail {
    Query { from: usize, ticket: u64, query: Query },
    Share { ticket: u64, share: Share },
}

impl LaneDesk {
    /// Creates the desk of `lane` among `lanes`.
    pub fn new(now: Instant, lane: usize, lanes: usize) -> Self {
        Self {
            lane,
            desk: Desk::new(lanes),
            mail: VecDeque::new(),
            gather_bucket: TokenBucket::new(now, SHARES_PER_SECOND),
            share_bucket: TokenBucket::new(now, SHARES_PER_SECOND),
            limited: 0,
        }
    }

    /// Takes the questions that the endpoint has for it. Answers leave by the endpoint.
    pub fn handle_questions(&mut self, now: Instant, endpoint: &mut Endpoint) {
        while let Some(question) = endpoint.poll_question() {
            let [kind, index] = question.words;
            let step = self.desk.ask(question, DebugRequest::of(kind, index));
            self.follow(now, endpoint, Some(step));
        }
    }

    /// Takes mail from another lane.
    pub fn handle_mail(&mut self, now: Instant, endpoint: &mut Endpoint, mail: DeskMail) {
        match mail.0 {
            Mail::Query { from, ticket, query } => {
                let share = self.share(now, endpoint, query);
                self.mail.push_back((from, DeskMail(Mail::Share { ticket, share })));
            }
            Mail::Share { ticket, share } => {
                let step = self.desk.take(ticket, share);
                self.follow(now, endpoint, step);
            }
        }
    }

    /// Returns the next mail to another lane, and to which.
    pub fn poll_mail(&mut self) -> Option<(usize, DeskMail)> {
        self.mail.pop_front()
    }

    /// Notes that mail did not reach its lane, which has too much already, or has ended (`gone`) and has no share.
    pub fn mail_undelivered(&mut self, now: Instant, endpoint: &mut Endpoint, mail: DeskMail, gone: bool) {
        if let Mail::Query { ticket, query, .. } = mail.0 {
            let share = if gone { query.nothing() } else { Share::Refused };
            self.limited += u64::from(matches!(share, Share::Refused));
            let step = self.desk.take(ticket, share);
            self.follow(now, endpoint, step);
        }
    }

    /// Shares refused, and questions left unanswered for want of one.
    pub fn limited(&self) -> u64 {
        self.limited
    }

    fn follow(&mut self, now: Instant, endpoint: &mut Endpoint, mut next: Option<Step>) {
        while let Some(step) = next.take() {
            match step {
                Step::Answer { asker, payload } => {
                    // Without room it stays unanswered, and its client asks again.
                    endpoint.answer(&asker, &payload);
                }
                Step::Gather { ticket, lanes, query } => {
                    let from = self.lane;
                    // Own share first: a lane with enough to do asks no other.
                    let own = if self.gather_bucket.take(now) {
                        lanes.contains(&from).then(|| self.share(now, endpoint, query))
                    } else {
                        self.limited += 1;
                        Some(Share::Refused)
                    };
                    if !matches!(own, Some(Share::Refused)) {
                        let others = lanes.filter(|&lane| lane != from);
                        let asked = others.map(|lane| (lane, DeskMail(Mail::Query { from, ticket, query })));
                        self.mail.extend(asked);
                    }
                    next = own.and_then(|share| self.desk.take(ticket, share));
                }
            }
        }
    }

    fn share(&mut self, now: Instant, endpoint: &Endpoint, query: Query) -> Share {
        if self.share_bucket.take(now) {
            return survey(endpoint, query);
        }
        self.limited += 1;
        Share::Refused
    }
}

/// Shares in DEBUG answers a second that a lane gives, and that it asks others for.
const SHARES_PER_SECOND: u32 = 100;

#[cfg(test)]
mod tests;
