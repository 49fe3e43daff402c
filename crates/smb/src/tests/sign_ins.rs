//! How long a connection may stand without a session, before the first and after the last.

use std::time::Duration;

use lane::time::{now, sleep};
use smb_client::{Channel, Connection};

use super::bed::{PASSWORD, credentials, rules, run};

/// How long a client has to sign in.
const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn a_log_off_on_an_old_connection_is_answered_and_another_sign_in_has_its_time() {
    run(21, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        let (lived, connection) = world
            .on(0, async move {
                let connection = Connection::open(address, options).await.unwrap();
                let mut ended = now();
                for _ in 0..3 {
                    let channel =
                        Channel::sign_in(&connection, credentials("alice", PASSWORD)).await.unwrap();
                    sleep(WITHIN * 2).await;
                    channel.log_off().await.unwrap();
                    ended = now();
                    sleep(WITHIN / 2).await;
                }
                (now() - ended, connection)
            })
            .await;
        assert!(lived < WITHIN);
        assert_eq!(bed.counters().ended_late.get(), 0);
        // Whoever signs in no more is let go.
        sleep(WITHIN - lived + Duration::from_secs(1)).await;
        assert_eq!(bed.counters().ended_late.get(), 1);
        drop(connection);
    });
}
