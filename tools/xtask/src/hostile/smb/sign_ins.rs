//! Wrong passwords without end, for a name that there is and for such as there are not.

use std::sync::atomic::{AtomicU64, Ordering};

use smb_wire::Status;

use super::GOOD;
use super::raw::Raw;
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct SignIns;

impl Scenario for SignIns {
    fn name(&self) -> &'static str {
        "smb-sign-ins"
    }

    fn about(&self) -> &'static str {
        "wrong passwords as fast as they go, for the good client's name and others, from many addresses"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let [tried, limited, let_in] = [const { AtomicU64::new(0) }; 3];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (tried, limited, let_in) = (&tried, &limited, &let_in);
                scope.spawn(move || {
                    for n in (thread..).step_by(THREADS) {
                        if field.is_over() {
                            return;
                        }
                        let Ok(status) = try_once(n) else { continue };
                        tried.fetch_add(1, Ordering::Relaxed);
                        match status {
                            Status::SUCCESS => let_in.fetch_add(1, Ordering::Relaxed),
                            Status::ACCOUNT_LOCKED_OUT | Status::REQUEST_NOT_ACCEPTED => {
                                limited.fetch_add(1, Ordering::Relaxed)
                            }
                            _ => 0,
                        };
                    }
                });
            }
        });
        let [tried, limited, let_in] = [tried, limited, let_in].map(AtomicU64::into_inner);
        Ok(Findings::default()
            .with("sign-ins", tried)
            .with("held off", limited)
            .expect(let_in == 0, || format!("{let_in} were let in by a wrong password"))
            .expect(tried < ENOUGH || limited > 0, || "nobody was held off".to_owned()))
    }
}

fn try_once(n: usize) -> anyhow::Result<Status> {
    let mut raw = Raw::over(connect_from(source(n), SMB)?)?;
    raw.negotiate()?;
    let other = format!("user-{}", n % 50);
    raw.sign_in(if n.is_multiple_of(3) { other.as_str() } else { GOOD }, "wrong password", false)
}

const THREADS: usize = 4;
/// Number of sign-ins, half of them from one address, from which on some are over the limit.
const ENOUGH: u64 = 200;
