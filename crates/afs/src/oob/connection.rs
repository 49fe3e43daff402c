//! A connection that a client claimed, and the call that waits for one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

use lane::backend::SocketOption;
use lane::net::TcpStream;
use lane::time::now;
use service::connections::Open;

/// Owner of a connection: only its calls may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) address: IpAddr,
    /// `None` for an anonymous one.
    pub(super) principal: Option<String>,
}

/// A connection that was claimed.
#[derive(Debug)]
pub(super) struct ClaimedConnection {
    /// Number that its client uses for it.
    pub(super) number: u64,
    pub(super) owner: Owner,
    pub(super) stream: Rc<TcpStream>,
    pub(super) open: Open,
}

impl ClaimedConnection {
    /// Marks the connection as busy with a transfer.
    pub(super) fn busy(&self) {
        self.open.slot().busy(now());
    }

    /// Resets the connection, which is of no use: the client is to know at once.
    pub(super) fn reset(self) {
        // If the option cannot be set the socket is broken already, and closing it tells the peer too.
        let _ = self.stream.set_option(SocketOption::ResetOnClose);
    }
}

/// A part of a transfer that waits for a connection.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) number: u64,
    pub(super) owner: Owner,
    arrived: RefCell<Option<ClaimedConnection>>,
    waiting: RefCell<Option<Waker>>,
}

impl Awaited {
    pub(super) fn new(number: u64, owner: Owner) -> Rc<Self> {
        Rc::new(Self { number, owner, arrived: RefCell::default(), waiting: RefCell::default() })
    }

    /// Hands the claimed connection to the transfer that waits for it.
    pub(super) fn arrive(&self, connection: ClaimedConnection) {
        *self.arrived.borrow_mut() = Some(connection);
        if let Some(waker) = self.waiting.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for it.
    pub(super) async fn arrived(&self) -> ClaimedConnection {
        poll_fn(|cx| match self.arrived.borrow_mut().take() {
            Some(connection) => Poll::Ready(connection),
            None => {
                *self.waiting.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
