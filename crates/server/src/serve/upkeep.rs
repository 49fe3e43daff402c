//! Work of the control thread while lanes serve: drains and restores nodes, replaces listeners that died,
//! follows links and interrupts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use identity::Writable;
use lane::topology::Topology;
use tokio::time::Instant;

use super::Serving;
use crate::egress::{self, Mark, Marks};
use crate::lane_messages::{Control, LaneEvent};
use crate::listeners::{LaneListener, ListenError, NewSockets};
use crate::logs;
use crate::server_error::ServerError;
use crate::silo::{Placement, Taking};
use crate::usage;

impl Serving {
    /// Acts on an event of a lane.
    pub(super) fn on_event(&mut self, event: LaneEvent) -> Result<(), ServerError> {
        match event {
            LaneEvent::Serving => {}
            LaneEvent::Prepared { lane, order, outcome } => self.on_prepared(lane, order, outcome),
            LaneEvent::Switched { lane, order } => self.on_switched(lane, order),
            LaneEvent::Failed(problem) => {
                //@ cause: A lane (thread) could not carry out an order of the server, such as to listen or to use a new volume.
                //@ remedy: Mend what the line names, and reload the server.
                tracing::error!(
                    "lane: it could not follow a change: {problem}; it serves as before; reload once mended [lane-failed]"
                );
            }
            LaneEvent::ListenerDied { lane, problem } => {
                //@ cause: The kernel ended a listening socket of a lane, as when another program shut it down.
                //@ remedy: None is needed, unless the line comes again and again: then report it.
                tracing::error!(
                    lane,
                    "lane {lane}: a listening socket failed ({problem}); a new one is opened, and open connections go on [listener-failed]"
                );
                // One that dies again and again must not keep this thread to itself.
                let soonest = self.repaired + REPAIR_PAUSE;
                self.repair_at = Some(self.repair_at.unwrap_or(soonest));
            }
            LaneEvent::StoppedListening { lane } if !self.taking.lane(lane) => {
                if let Err(problem) = self.listeners.close(lane) {
                    //@ cause: A node was drained (`drained_nodes`), and a listening socket of one of its lanes could not be closed.
                    //@ remedy: None is needed: the socket gets no new connections. It goes with the server's next start.
                    tracing::error!(
                        lane,
                        "lane {lane}: its listening socket cannot be closed though its node is drained: {problem}; it gets no new \
                         connections [listener-stays]"
                    );
                }
            }
            LaneEvent::StoppedListening { .. } => {}
            LaneEvent::Ended { .. } => return Err(ServerError::LaneEnded),
        }
        Ok(())
    }

    /// Sets which lanes take connections. Those that no longer do serve what they have to its end.
    pub(super) fn steer_to(&mut self, taking: Taking) {
        let stopping: Vec<usize> = taking.lanes(false).filter(|&lane| self.taking.lane(lane)).collect();
        for (silo, state) in self.layout.silos.iter().enumerate() {
            if taking.silo(silo) != self.taking.silo(silo) {
                let what =
                    if taking.silo(silo) { "takes connections again" } else { "takes no new connections" };
                tracing::info!(node = state.node, "the silo {what}");
            }
        }
        self.taking = taking;
        self.mend_listeners();
        for lane in stopping {
            // A lane too busy to hear it keeps listeners that get nothing new: no harm.
            let _ = self.controls[lane].send(Control::StopListening);
        }
        self.rebuild_placement();
    }

    /// Ensures that every lane that takes connections has its listeners and the others get nothing new.
    pub(super) fn mend_listeners(&mut self) {
        (self.repaired, self.repair_at) = (Instant::now(), None);
        if self.reloading.is_some() {
            // Lanes hold sockets of the groups that a repair would replace.
            self.repair_at = Some(self.repaired + REPAIR_PAUSE);
            return;
        }
        match self.listeners.repair() {
            Ok(new) => self.hand_out(new),
            Err(problem) => self.retry(&problem),
        }
        let (new, problems) = self.listeners.steer_to(&self.taking);
        self.hand_out(new);
        problems.iter().for_each(|problem| self.retry(problem));
    }

    /// Sets the marks of packets, those of open connections too.
    pub(super) fn mark_by(&mut self, marks: &Marks) {
        if *marks == self.config.server.egress_marks {
            return;
        }
        egress::warnings(marks, &self.layout).iter().for_each(|warning| logs::warn(warning));
        self.egress.set_marks(marks);
        self.follow_links();
    }

    /// Takes marks away from lanes with NICs that have lost their links, and gives them back.
    pub(super) fn follow_links(&mut self) {
        let Self { egress, layout, controls, .. } = self;
        let changed = egress.follow(layout, |lane, mark| controls[lane].send(Control::Mark(mark)).is_ok());
        for (mark, lanes) in changed {
            match mark {
                Mark::LinkLost => {
                    //@ cause: Every network interface of a NUMA node that `server.egress_marks` names has lost its link.
                    //@ remedy: Look at the cables, switch ports and interfaces. Packets are marked again once a link is back.
                    tracing::warn!(
                        ?lanes,
                        "packets of lanes {lanes:?}: no interface of server.egress_marks on their node has a link, so they carry no mark and \
                         take the default route; look at the links [egress-link-lost]"
                    )
                }
                Mark::None => tracing::info!(?lanes, "packets carry no mark"),
                Mark::Of(mark) => tracing::info!(?lanes, mark, "packets are marked"),
            }
        }
    }

    /// Schedules another attempt for an address. Where every listener of it died, its port is free only when
    /// the last lane has closed its own.
    fn retry(&mut self, problem: &ListenError) {
        later(problem);
        self.repair_at = Some(self.repaired + REPAIR_PAUSE);
    }

    /// Follows changes outside: links that came and went, interrupts that were moved.
    pub(super) fn look_around(&mut self) {
        self.mend_listeners();
        if self.layout.lane_nodes().len() < 2 {
            return;
        }
        let Ok(topology) = Topology::of_this_machine() else { return };
        let before = self.layout.clone();
        self.layout.refresh_nics(&topology);
        if self.layout != before {
            tracing::info!("network interfaces have changed:\n{}", self.layout);
            if let Err(problem) = self.listeners.steer_nics(&self.layout) {
                later(&problem);
            }
        }
        self.place_by(&topology);
    }

    /// Reports directories that have lost their access lists.
    fn look_at_lists(&mut self) {
        let health = &self.subject.health;
        let lost = self.objects.lost_lists(&self.volumes);
        let of =
            |(name, path): &(String, PathBuf)| format!("access list of {} in volume {name}", path.display());
        for gone in self.lost_lists.iter().filter(|before| !lost.contains(before)) {
            health.clear(&of(gone));
        }
        for found in lost.iter().filter(|found| !self.lost_lists.contains(found)) {
            let (name, path) = (&found.0, found.1.display());
            health.note(&of(found), "it is gone: the directory is served to administrators alone");
            //@ cause: The directory had an access list or descriptor when the server last saw it. It has none now, as after a copy by a
            //@ program that leaves extended attributes out.
            //@ remedy: Restore its attributes by `rsync -aX` as root, or give it a list by `linerate acl set DIR`. If it needs none, run
            //@ `linerate acl accept DIR`, which counts for all directories beneath it too.
            tracing::error!(
                volume = name,
                "volume {name}: the access list of {path} is gone, as after a copy that leaves extended attributes out; the directory is \
                 served to administrators alone; restore the list, or say that there need be none by `linerate acl accept {path}` [list-lost]"
            );
        }
        self.lost_lists = lost;
    }

    /// Reports the reasons why volumes cannot be written to, and the state of the index.
    pub(super) fn look_at_objects(&mut self) {
        self.look_at_lists();
        let health = &self.subject.health;
        let mut now = self.objects.troubles(&self.volumes);
        // A read-only volume has no trouble with being written to.
        let is_writable = |name: &str| {
            let mut named = self.config.volumes.iter().filter(|volume| volume.name.as_str() == name);
            named.any(|volume| volume.writable != Writable::Nobody)
        };
        // What was found of them while they were opened says more.
        let hindered = self.hindered.iter().filter(|(name, _)| !now.iter().any(|(known, _)| known == *name));
        let hindered: Vec<_> =
            hindered.map(|(name, why)| (name.clone(), logs::without_name(why).to_owned())).collect();
        now.extend(hindered);
        now.retain(|(name, _)| is_writable(name));
        for (name, _) in self.write_troubles.iter().filter(|before| !now.contains(before)) {
            health.clear(&writing(name));
        }
        for name in mended(&self.write_troubles, &now, is_writable) {
            tracing::info!(volume = name, "volume {name}: it can be written to again");
        }
        for (name, trouble) in now.iter().filter(|trouble| !self.write_troubles.contains(trouble)) {
            health.note(&writing(name), trouble.as_str());
            //@ cause: The file system is read-only, or the server may not write the volume's directory or its extended attributes. Or the
            //@ index cannot be used, another server writes to the directory, or another directory is at the volume's path.
            //@ remedy: Mend what the line says. If `/health` still has the line after some seconds, restart the server. Where another
            //@ directory was served by that name before, `linerate volume remove NAME` forgets it. To serve without writing, leave
            //@ `writable` away.
            tracing::error!(volume = name, "volume {name}: {trouble} [volume-not-writable]");
        }
        self.write_troubles = now;
        let sealed = self.objects.seals(&self.volumes);
        for (name, _) in self.seals.iter().filter(|before| !sealed.contains(before)) {
            health.clear(&rights(name));
        }
        for (name, why) in sealed.iter().filter(|seal| !self.seals.contains(seal)) {
            health.note(&rights(name), format!("it is served to administrators alone: {why}"));
            //@ cause: The volume has access lists that the server cannot read, or had lists that are gone, as after a copy without
            //@ extended attributes.
            //@ remedy: Do what the line says: run the server with CAP_SYS_ADMIN, convert or restore the lists, or accept the directory
            //@ as it is by `linerate acl accept DIR`.
            tracing::error!(
                volume = name,
                "volume {name}: it is served to administrators alone: {why} [volume-sealed]"
            );
        }
        self.seals = sealed;
        if let Some(index) = self.objects.index() {
            if !self.tells_of_index {
                self.subject.blocks.add_of_process("index", Arc::clone(index.counters()) as _);
                self.tells_of_index = true;
            }
            let trouble = index.look();
            match &trouble {
                Some(trouble) => health.note("index", trouble.as_str()),
                None => health.clear("index"),
            }
            match (self.index_trouble.is_some(), &trouble) {
                (false, Some(trouble)) => {
                    //@ cause: The index in the state directory cannot be written: its disk is full, fails, does not answer, or is mounted
                    //@ read-only.
                    //@ remedy: Make room on the disk of the state directory, or mend it. Nothing is lost unless the server is killed before.
                    tracing::error!(
                        "index: {trouble}; look at the disk of the state directory [index-not-written]"
                    );
                }
                (true, None) => tracing::info!("index: it can be written again, and nothing was lost"),
                _ => {}
            }
            self.index_trouble = trouble;
        }
        let volumes = self.objects.shown(&self.volumes);
        for volume in &volumes {
            match usage::trouble(volume) {
                Some(trouble) => health.note(&counting(&volume.name), trouble),
                None => health.clear(&counting(&volume.name)),
            }
        }
        *self.subject.volumes.lock().expect("nothing panics while it holds them") = volumes;
    }

    fn rebuild_placement(&mut self) {
        match Topology::of_this_machine() {
            Ok(topology) => self.place_by(&topology),
            //@ cause: `/sys` could not be read when the server looked where network interfaces and CPUs are, as in some containers.
            //@ remedy: Mount `/sys` in the container. Without it new connections may be served from a farther NUMA node, hence slower.
            Err(problem) => tracing::warn!(
                "connections: interfaces and CPUs of this machine cannot be read ({problem}); new connections are spread over lanes as \
                 before; let the server read /sys [connections-not-placed]"
            ),
        }
    }

    fn place_by(&mut self, topology: &Topology) {
        let placement = Arc::new(Placement::new(
            topology,
            &self.layout,
            &self.taking,
            self.config.server.nodes_without_nic,
        ));
        if *placement == *self.placement {
            return;
        }
        self.placement = placement;
        for control in &mut self.controls {
            // The next look around tries again: the lane's word is only slightly out of date.
            let _ = control.send(Control::Place(Arc::clone(&self.placement)));
        }
    }

    fn hand_out(&mut self, new: NewSockets) {
        let mut by_lane: Vec<Vec<LaneListener>> = self.controls.iter().map(|_| Vec::new()).collect();
        for (lane, listener) in new {
            by_lane[lane].push(listener);
        }
        for (lane, listeners) in
            by_lane.into_iter().enumerate().filter(|(_, listeners)| !listeners.is_empty())
        {
            if self.controls[lane].send(Control::Listen(listeners)).is_ok() {
                continue;
            }
            // A listener without an accepting lane would swallow clients.
            //@ cause: A lane (thread) was so busy that it did not take a new listening socket in time.
            //@ remedy: None is needed, unless the line repeats: then look at load and disks of the machine.
            tracing::error!(
                lane,
                "lane {lane}: it is too busy to take a new listening socket; other lanes take its connections, and it is tried again \
                 [listener-late]"
            );
            if let Err(problem) = self.listeners.close(lane) {
                later(&problem);
            }
        }
    }
}

/// Returns the volumes that can be written to again. One that is served no longer, or is called otherwise by
/// now, is none of them.
fn mended<'a>(
    before: &'a [(String, String)],
    now: &[(String, String)],
    is_writable: impl Fn(&str) -> bool,
) -> Vec<&'a str> {
    let names = before.iter().map(|(name, _)| name.as_str());
    let is_well = |name: &&str| is_writable(name) && !now.iter().any(|(still, _)| still == name);
    names.filter(is_well).collect()
}

fn later(problem: &ListenError) {
    //@ cause: A listening socket could not be opened, closed or steered, as when another program has the address.
    //@ remedy: See that no other program listens on the address (`ss -ltnup`). It is tried again each second.
    tracing::error!(
        "listeners: {problem}; clients of this address may find no server; it is tried again [listeners-failed]"
    );
}

/// Time between two repairs of listeners.
const REPAIR_PAUSE: Duration = Duration::from_secs(1);
/// Interval of checks whether volumes and the index can be written to: `/health` is no later than that.
pub(super) const HEALTH_PERIOD: Duration = Duration::from_millis(500);
/// Interval at which links, interrupts and listeners are checked.
pub(super) const LOOK_AROUND_PERIOD: Duration = Duration::from_secs(10);

fn rights(volume: &str) -> String {
    format!("rights in volume {volume}")
}

fn writing(volume: &str) -> String {
    format!("volume {volume}, writing")
}

fn counting(volume: &str) -> String {
    format!("volume {volume}, counting")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_served_to_writers_can_be_written_to_again() {
        let troubles = |names: &[&str]| {
            names.iter().map(|name| ((*name).to_owned(), "full".to_owned())).collect::<Vec<_>>()
        };
        let before = troubles(&["mended", "renamed", "still", "read-only"]);
        let is_writable = |name: &str| ["mended", "still", "other"].contains(&name);
        assert_eq!(mended(&before, &troubles(&["still", "other"]), is_writable), ["mended"]);
    }
}
