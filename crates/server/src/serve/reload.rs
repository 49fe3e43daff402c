//! Reload: a new configuration, or the old one opened again, on every lane or on none.

use std::time::SystemTime;

use service::volumes::VolumeTable;
use tokio::time::Instant;

use super::reloading::Reloading;
use super::volumes::not_reopened;
use super::{Serving, check_marks, taking};
use crate::config::{Changes, Config};
use crate::loaded_sites::LoadedSites;
use crate::logs;
use crate::objects::Use;
use crate::own_files::OwnFiles;
use crate::reload_transaction::{ReloadTransaction, TransactionState};
use crate::roots::Root;
use crate::server_error::ServerError;

impl Serving {
    /// Takes over a new configuration, or keeps the old one and reports why.
    pub(super) fn reload(&mut self, load: impl Fn() -> Result<Config, String>) {
        self.reopen_logs();
        if self.reloading.is_some() {
            self.reload_again = true;
            return;
        }
        self.reload_again = false;
        let begun = load().and_then(|config| self.take_over(config));
        if let Err(problem) = begun {
            self.refused(&problem);
        }
    }

    /// Orders the lanes to prepare `config`; [`Serving::proceed`] does the rest.
    ///
    /// # Errors
    /// What can be seen before a lane is notified, and what keeps one from being notified.
    pub(super) fn take_over(&mut self, config: Config) -> Result<(), String> {
        self.order(config, None)
    }

    /// Orders the lanes to open a volume again, all else staying as it is.
    ///
    /// # Errors
    /// As [`Serving::take_over`].
    pub(super) fn reopen(&mut self, volume: &str) -> Result<(), String> {
        self.order(self.config.clone(), Some(volume.to_owned()))
    }

    fn order(&mut self, mut config: Config, reopened: Option<String>) -> Result<(), String> {
        // What counts from the next start on is the server's own from now on.
        let named = OwnFiles::of(&config);
        config.keep_of_start(&self.started);
        // What the logs are now is no file of the new configuration either.
        config.check_own_files().map_err(|error| config.placed(error).to_string())?;
        let own = OwnFiles::of(&config).and(named);
        own.guard(&mut config.volumes);
        let (roots, volumes) = self.roots_of(&config, reopened.as_deref());
        let volumes =
            self.objects.give(volumes, self.layout.lane_count(), config.server.state_dir(), Use::Serve);
        let volumes = volumes.map_err(|error| error.to_string())?;
        let tell = |error: ServerError| error.to_string();
        let state_dir = config.server.state_dir();
        let loaded = LoadedSites::load(&config, &self.layout, &self.objects, state_dir.as_deref(), false);
        let mut loaded_sites = loaded.map_err(tell)?;
        own.withhold(self.objects.withheld());
        self.own_files.set(own);
        loaded_sites.warnings().iter().for_each(|warning| logs::warn(warning));
        check_marks(&config).map_err(tell)?;
        let taking = taking(&config, &self.layout).map_err(tell)?;
        let change = self.listeners.change(&config.sockets(), &self.layout, &taking);
        let change = change.map_err(|error| tell(error.into()))?;
        loaded_sites.bound(&change);
        let listeners = (0..self.controls.len()).map(|lane| change.for_lane(lane));
        let listeners = listeners.collect::<Result<Vec<_>, _>>().map_err(|error| tell(error.into()))?;
        self.orders += 1;
        let troubles = loaded_sites.troubles().to_vec();
        let sites = loaded_sites.into_sites();
        let what = (&sites, &volumes);
        // Lanes find by its new name what is served by another.
        self.objects.rename(&volumes, &self.volumes);
        let begun = ReloadTransaction::begin(self.orders, &self.controls, what, listeners, change.closed());
        let transaction = begun.inspect_err(|_| self.objects.rename(&self.volumes, &volumes))?;
        let closing = None;
        self.reloading = Some(Reloading {
            transaction,
            sites,
            troubles,
            config,
            taking,
            change,
            roots,
            volumes,
            closing,
            reopened,
        });
        Ok(())
    }

    /// Returns the present roots of all volumes, or of one with the others as they were.
    fn roots_of(&self, config: &Config, reopened: Option<&str>) -> (Vec<Root>, VolumeTable) {
        let Some(name) = reopened else {
            let roots = Root::all(&config.volumes);
            let table = Root::table(&roots, &self.volumes, &config.volumes);
            return (roots, table);
        };
        let anew = |root: Root| if root.name == *name { root.anew() } else { root };
        let roots: Vec<Root> = self.roots.roots().into_iter().map(anew).collect();
        let identity = roots.iter().find(|root| root.name == name).and_then(Root::identity);
        (roots, self.volumes.reopening(name, identity))
    }

    /// Waits until the changes that a reload forbids have ended; for ever without any.
    pub(super) async fn closed(reloading: Option<&Reloading>) {
        match reloading.and_then(|reloading| reloading.closing.as_ref()) {
            Some(closing) => closing.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the time at which lanes without an answer are late.
    pub(super) fn reload_due(&self) -> Option<Instant> {
        let waits_for_lanes = |reloading: &&Reloading| reloading.closing.is_none();
        self.reloading.as_ref().filter(waits_for_lanes).map(|reloading| reloading.transaction.deadline())
    }

    /// Takes a lane's answer that it is ready to serve the order, or cannot be.
    pub(super) fn on_prepared(&mut self, lane: usize, order: u64, outcome: Result<(), String>) {
        if let Some(reloading) = &mut self.reloading {
            let standing = reloading.transaction.prepared(lane, order, outcome);
            self.proceed(standing);
        }
    }

    /// Takes a lane's answer that it serves the order.
    pub(super) fn on_switched(&mut self, lane: usize, order: u64) {
        if let Some(reloading) = &mut self.reloading {
            let standing = reloading.transaction.switched(lane, order);
            self.proceed(standing);
        }
    }

    /// Handles lanes that have not answered in time.
    pub(super) fn reload_late(&mut self) {
        if let Some(reloading) = &self.reloading {
            let standing = reloading.transaction.late();
            self.proceed(standing);
        }
    }

    /// Aborts what lanes prepare.
    pub(super) fn forget_reload(&mut self) {
        if let Some(Reloading { transaction, volumes, .. }) = self.reloading.take() {
            transaction.drop_orders(&self.controls);
            self.objects.rename(&self.volumes, &volumes);
        }
    }

    fn proceed(&mut self, standing: TransactionState) {
        match standing {
            TransactionState::Waits => {}
            TransactionState::Ready => {
                let Some(reloading) = &mut self.reloading else { return };
                // The last that can fail. From here on connections wait at lanes that are ready for them.
                if let Err(problem) = reloading.change.listen() {
                    return self.give_up(&problem.to_string());
                }
                self.objects.open_gates(&reloading.volumes);
                reloading.transaction.carry_out(&self.controls);
            }
            TransactionState::Refused(problem) => self.give_up(&problem),
            TransactionState::Done => {
                let Some(reloading) = &mut self.reloading else { return };
                let closing = self.objects.close_gates(&reloading.volumes);
                match closing.is_over() {
                    true => self.taken(),
                    false => reloading.closing = Some(closing),
                }
            }
        }
    }

    /// Updates the control thread's state once every lane serves the new configuration and forbidden changes
    /// have ended.
    pub(super) fn taken(&mut self) {
        let Some(reloading) = self.reloading.take() else { return };
        let Reloading { sites, troubles, config, taking, change, roots, volumes, reopened, .. } = reloading;
        (self.sites, self.config_troubles) = (sites, troubles);
        self.look_at_sites(true);
        self.roots.set(roots);
        self.volumes = volumes;
        let changes = Changes::between(&self.started, &self.config, &config);
        if reopened.is_none() && !changes.at_start.is_empty() {
            //@ cause: A reload has read other values of keys than the server was started with, which count from the next start on.
            //@ remedy: Restart the server when it suits. All else is in use already.
            tracing::warn!(
                "configuration: {} changed, which counts from the next start on; all else is in use; restart the server when it suits \
                 [reload-restart]",
                changes.at_start.join(", ")
            );
        }
        self.listeners.commit(change);
        self.pacing.set_rate(config.server.egress_rate());
        self.steer_to(taking);
        self.mark_by(&config.server.egress_marks);
        self.config = config;
        if let Some(name) = reopened {
            return self.reopened(&name);
        }
        self.forget_root_troubles();
        let config = &self.config;
        self.hindered.retain(|name, _| config.volumes.iter().any(|volume| volume.name.as_str() == name));
        self.reload_counters.taken.increment();
        self.note_reload(false);
        self.subject.health.clear(SUBJECT);
        self.look_at_objects();
        match changes.taken.is_empty() {
            true => tracing::info!("reloaded"),
            false => tracing::info!("reloaded: {} changed", changes.taken.join(", ")),
        }
    }

    fn give_up(&mut self, problem: &str) {
        let reopened = self.reloading.as_ref().and_then(|reloading| reloading.reopened.clone());
        self.forget_reload();
        match reopened {
            Some(name) => {
                self.note_root(&name, not_reopened(problem));
            }
            None => self.refused(problem),
        }
    }

    fn refused(&mut self, problem: &str) {
        self.reload_counters.refused.increment();
        self.note_reload(true);
        self.subject.health.note(SUBJECT, format!("the last one was refused: {problem}"));
        let line =
            problem.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        //@ cause: A reload has read a configuration that is wrong, or that cannot be served now. The line says what and where.
        //@ remedy: Mend it, look at it with `linerate serve --config FILE --check=reload`, and reload. Clients notice nothing.
        tracing::error!(
            "configuration: the new one was refused and the old one stays in use: {line}; mend it and reload [reload-refused]"
        );
    }

    fn note_reload(&self, refused: bool) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.reload_counters.last_reload_refused.set(refused.into());
        self.reload_counters.last_reload_seconds.set(now.as_secs());
    }
}

/// Subject of reloads in `/health`.
const SUBJECT: &str = "reload";

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::path::Path;
    use std::sync::Arc;

    use identity::Writable;
    use vfs::Closed;

    use super::*;
    use crate::control::{ControlReceiver, LaneControl, controls};
    use crate::lane_messages::Control;
    use crate::serve::Server;

    fn config(dir: &Path, http: &[SocketAddr]) -> Config {
        let web = http::Http::listening(Some(http.to_vec()), Some(Vec::new()));
        let mut config = Config::for_directory(dir, &[Arc::new(web)]).unwrap();
        (config.admin.listen, config.server.lanes) = (None, Some(2));
        config
    }

    fn get(address: SocketAddr, target: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn free_address() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    /// Replaces the mailbox of lane 1, which receives nothing meanwhile.
    fn deaf(serving: &mut Serving, room: usize) -> (LaneControl, ControlReceiver) {
        let (mut control, mut orders) = controls(1, 8);
        let (control, orders) = (control.remove(0), orders.remove(0));
        for _ in room..8 {
            control.send(Control::StopListening).ok().unwrap();
        }
        (std::mem::replace(&mut serving.controls[1], control), orders)
    }

    fn assert_unchanged(serving: &Serving, old: SocketAddr, new: SocketAddr, why: &str) {
        assert!(serving.reloading.is_none());
        assert!(serving.subject.health.lines().contains(why), "{}", serving.subject.health.lines());
        assert_eq!(serving.listeners.addresses(), [old]);
        for _ in 0..16 {
            assert!(get(old, "/a.txt").unwrap().ends_with("old"), "either lane serves what it did");
        }
        assert_eq!(TcpStream::connect(new).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        drop(TcpListener::bind(new).expect("the new address is free again"));
    }

    #[test]
    fn one_lane_that_is_deaf_or_full_or_refuses_keeps_the_old_site_and_listeners_everywhere() {
        let [old_dir, new_dir] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::write(old_dir.path().join("a.txt"), "old").unwrap();
        std::fs::write(new_dir.path().join("a.txt"), "new").unwrap();
        let (old, new) = (free_address(), free_address());
        let mut server = Server::start(config(old_dir.path(), &[old])).unwrap();
        let serving = &mut server.serving;
        let load = || Ok(config(new_dir.path(), &[new]));

        let (real, full) = deaf(serving, 0);
        serving.reload(load);
        assert_unchanged(serving, old, new, "lane 1 is too busy");
        drop(full);

        let (_, silent) = deaf(serving, 8);
        serving.reload(load);
        assert!(serving.reloading.is_some() && serving.reload_due().is_some());
        assert!(TcpStream::connect(new).is_err(), "no connection may wait for a lane that is not ready");
        serving.reload_late();
        drop(silent);
        assert_unchanged(serving, old, new, "no answer");

        let (_, refusing) = deaf(serving, 8);
        serving.reload(load);
        serving.on_prepared(1, serving.orders, Err("no descriptors left".to_owned()));
        drop(refusing);
        assert_unchanged(serving, old, new, "no descriptors left");
        assert_eq!(serving.reload_counters.refused.get(), 3);

        serving.controls[1] = real;
        serving.reload(load);
        server.housekeeping.block_on(async {
            while serving.reloading.is_some() {
                let event = serving.events.recv().await.unwrap();
                serving.on_event(event).unwrap();
            }
        });
        assert_eq!(
            (serving.listeners.addresses(), serving.subject.health.lines()),
            (vec![new], String::new())
        );
        for _ in 0..16 {
            assert!(get(new, "/a.txt").unwrap().ends_with("new"), "either lane serves what is new");
        }
        assert_eq!(serving.reload_counters.taken.get(), 1);
    }

    /// Takes over a configuration to the end.
    fn take(server: &mut Server, config: Config) {
        let serving = &mut server.serving;
        serving.reload(|| Ok(config.clone()));
        server.housekeeping.block_on(async {
            while serving.reloading.is_some() {
                tokio::select! {
                    event = serving.events.recv() => serving.on_event(event.unwrap()).unwrap(),
                    () = Serving::closed(serving.reloading.as_ref()) => serving.taken(),
                }
            }
        });
    }

    #[test]
    fn whoever_still_has_a_volume_open_changes_nothing_once_a_reload_has_made_it_read_only() {
        let [dir, other, state] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let with = |dir: &Path, writable: Writable| {
            // A volume is called as its directory is.
            let tree = dir.join("tree");
            std::fs::create_dir_all(&tree).unwrap();
            let mut config = config(&tree, &[SocketAddr::from(([127, 0, 0, 1], 0))]);
            config.volumes[0].writable = writable;
            config.server.state_dir = Some(state.path().to_owned());
            config
        };
        let mut server = Server::start(with(dir.path(), Writable::Nobody)).unwrap();
        assert!(server.serving.objects.volumes().is_empty(), "nobody writes, so nothing is shared");
        take(&mut server, with(dir.path(), Writable::anyone()));
        // As a slow request holds it.
        let held = server.serving.objects.volumes();
        assert_eq!((held.len(), held[0].closed()), (1, None));
        take(&mut server, with(dir.path(), Writable::AsListed));
        assert_eq!(held[0].closed(), None, "it is the same volume, with other rights");
        take(&mut server, with(dir.path(), Writable::Nobody));
        assert_eq!(held[0].closed(), Some(Closed::ReadOnly));
        take(&mut server, with(dir.path(), Writable::anyone()));
        assert_eq!(held[0].closed(), None);
        take(&mut server, with(other.path(), Writable::anyone()));
        assert_eq!(held[0].closed(), Some(Closed::ReadOnly), "another directory has its name");
        let serving = &server.serving;
        let open = serving.objects.volumes().into_iter().find(|volume| !Arc::ptr_eq(volume, &held[0]));
        assert_eq!(open.unwrap().closed(), None);
    }
}
