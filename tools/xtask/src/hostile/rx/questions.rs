//! VERSION and DEBUG questions, from an address that is there and from addresses without hosts.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use rx::header::PacketType;
use rxdebug::{DebugRequest, Query};

use super::wire::{Line, Spoofer};
use crate::hostile::arena::{ATTACKER, nobody};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Questions;

impl Scenario for Questions {
    fn name(&self) -> &'static str {
        "rx-questions"
    }

    fn about(&self) -> &'static str {
        "20,000 VERSION and DEBUG questions/s, half of them from addresses where nobody lives"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut spoofer, mut line, mut asked) = (Spoofer::new()?, Line::at(ATTACKER)?, 0u32);
        let (mut answers, started) = (0u64, Instant::now());
        while !field.is_over() {
            let began = Instant::now();
            for n in 0..QUESTIONS_A_TURN {
                let number = asked + 1;
                let question = match n % 8 {
                    0 | 1 => Query::debug(number, DebugRequest::Stats),
                    _ => Query::version(number),
                };
                if n % 2 == 0 {
                    line.send(question.packet());
                } else {
                    let from = SocketAddrV4::new(nobody(asked), 1024 + (asked % 50_000) as u16);
                    spoofer.send(from, question.packet());
                }
                asked += 1;
            }
            while let Some((header, _)) = line.receive() {
                answers += u64::from(matches!(header.kind, PacketType::Version | PacketType::Debug));
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        let seconds = started.elapsed().as_secs().max(1);
        let most = ANSWERS_PER_SECOND * (seconds + 2);
        Ok(Findings::default()
            .with("questions", asked)
            .with("answers", answers)
            .expect(answers <= most, || format!("{answers} answers to one address in {seconds} s")))
    }
}

const TURN: Duration = Duration::from_millis(5);
const QUESTIONS_A_TURN: u32 = 100;
/// Answers that one address may have (docs/reference/limits.md).
const ANSWERS_PER_SECOND: u64 = 250;
