//! The service as a server knows it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lane::counters::CounterBlock;
use lane::net::TcpStream;
use service::volumes::LaneVolumes;
use service::{ConnectionRouter, LaneFuture, LaneService, LaneSocket, Role, Switch};

use super::shared::Service;
use crate::site_loader::{HttpSite, role_of};

impl LaneService for Service {
    fn counters(&self) -> Vec<(&'static str, Arc<dyn CounterBlock>)> {
        vec![("http", Arc::clone(&self.counters) as _), ("http", Arc::clone(self.connection_counters()) as _)]
    }

    fn listen(
        self: Rc<Self>,
        socket: LaneSocket,
        role: Role,
        router: Rc<dyn ConnectionRouter>,
    ) -> LaneFuture<io::Result<()>> {
        Box::pin(async move {
            let LaneSocket::Tcp(listener) = socket else {
                return Err(io::Error::other("HTTP is served over TCP"));
            };
            let spoken = || role_of(role, &self.site());
            self.listen_where(&listener, spoken, |stream| router.place(stream, role)).await
        })
    }

    fn take(self: Rc<Self>, stream: TcpStream, role: Role) {
        let role = role_of(role, &self.site());
        Service::take(&self, stream, role);
    }

    fn prepare(self: Rc<Self>, site: &dyn service::Site, volumes: &LaneVolumes) -> Result<Switch, String> {
        let http_site = site.expect::<HttpSite>();
        let (site, ktls) = (http_site.open(volumes)?, http_site.ktls());
        Ok(Box::new(move || {
            self.ktls.borrow_mut().set_policy(ktls);
            self.reload(site);
        }))
    }

    fn mark(&self, mark: u32) {
        self.set_mark(mark);
    }

    fn dismiss(&self) {
        Service::dismiss(self);
    }

    fn drain(self: Rc<Self>, deadline: Instant) -> LaneFuture<usize> {
        Box::pin(async move { Service::drain(&self, deadline).await })
    }

    fn flush_log(&self) {
        Service::flush_log(self);
    }
}
