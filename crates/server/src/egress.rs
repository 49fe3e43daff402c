//! Marks of each lane's packets, by which the machine's filters and routes send them out by a NIC of the
//! lane's silo.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lane::layout::{Layout, SiloLayout};
use lane::socket::options::can_mark;
use lane::topology::carries;
use tokio::time::{Instant, sleep_until};

/// Marks by interface name, as configured.
pub(crate) type Marks = BTreeMap<String, u32>;

/// Mark of a lane's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// No mark, as none is configured for the lane's silo.
    #[default]
    None,
    /// No mark, as no marked NIC of the silo has a link: the kernel chooses among those that work.
    LinkLost,
    /// Mark of a NIC of the lane's silo.
    Of(u32),
}

/// Reason why packets cannot be marked as configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EgressError {
    /// The capability CAP_NET_ADMIN is missing.
    #[error(
        "this process may not mark packets ({0}): give it CAP_NET_ADMIN \
         (AmbientCapabilities=CAP_NET_ADMIN in the service file, --cap-add NET_ADMIN for docker), or take the key out"
    )]
    NotAllowed(#[source] std::io::Error),
}

/// Marks in force, with the state of their links.
pub(crate) struct Egress {
    marks: Marks,
    lanes: Vec<Mark>,
    next_look: Instant,
}

impl Mark {
    /// Returns the value for the socket option.
    pub(crate) fn value(self) -> u32 {
        match self {
            Self::None | Self::LinkLost => 0,
            Self::Of(mark) => mark,
        }
    }
}

impl Egress {
    /// Makes the marks by the present state of the links.
    pub(crate) fn new(marks: &Marks, layout: &Layout) -> Self {
        let lanes = marks_of_lanes(marks, layout, works);
        Self { marks: marks.clone(), lanes, next_look: Instant::now() }
    }

    /// Returns the mark that a lane starts with.
    pub(crate) fn of_lane(&self, lane: usize) -> Mark {
        self.lanes[lane]
    }

    /// Sets the configured marks, which [`Egress::follow`] puts in force.
    pub(crate) fn set_marks(&mut self, marks: &Marks) {
        self.marks = marks.clone();
    }

    /// Waits until links are due for another look; for ever without marks. Nothing is lost when the future is
    /// dropped.
    pub(crate) async fn next_look(&self) {
        if self.is_at_rest() { std::future::pending().await } else { sleep_until(self.next_look).await }
    }

    /// Returns whether no look is due: no marks, and no lane that still has one.
    fn is_at_rest(&self) -> bool {
        self.marks.is_empty() && self.lanes.iter().all(|mark| *mark == Mark::None)
    }

    /// Looks at the links, gives changed marks to their lanes by `tell`, and returns the lanes that took one,
    /// by mark.
    ///
    /// `tell` says whether the lane took it; otherwise it is tried again at the next look.
    pub(crate) fn follow(
        &mut self,
        layout: &Layout,
        mut tell: impl FnMut(usize, Mark) -> bool,
    ) -> BTreeMap<Mark, Vec<usize>> {
        self.next_look = Instant::now() + LOOK_PERIOD;
        let now = marks_of_lanes(&self.marks, layout, works);
        let mut changed: BTreeMap<Mark, Vec<usize>> = BTreeMap::new();
        for (lane, (old, new)) in self.lanes.iter_mut().zip(now).enumerate() {
            if *old != new && tell(lane, new) {
                *old = new;
                changed.entry(new).or_default().push(lane);
            }
        }
        changed
    }
}

/// Checks that packets can be marked, if there are marks.
///
/// # Errors
///
/// [`EgressError`] when there are marks and they cannot be set.
pub(crate) fn check(marks: &Marks) -> Result<(), EgressError> {
    if marks.is_empty() { Ok(()) } else { can_mark().map_err(EgressError::NotAllowed) }
}

/// Returns warnings for the administrator: marks that no lane will use.
pub(crate) fn warnings(marks: &Marks, layout: &Layout) -> Vec<String> {
    let of_silos = |nic: &str| layout.silos.iter().any(|silo| has(silo, nic));
    let shared = |nic: &str| layout.shared_nics.iter().any(|shared| shared.name == nic);
    let warning = |nic: &String| match (of_silos(nic), shared(nic)) {
        (true, _) => None,
        (false, true) => {
            //@ level: WARN
            //@ cause: The network interface that `server.egress_marks` names is near all NUMA nodes alike, so that no lanes are its own.
            //@ remedy: Take it out of `server.egress_marks`. Its packets are sent without a mark.
            Some(format!(
                "configuration server.egress_marks: no lanes are near {nic} alone, so its mark is not used; take it out \
                 [egress-mark-unused]"
            ))
        }
        (false, false) => {
            //@ level: WARN
            //@ cause: `server.egress_marks` names a network interface that the machine does not have now.
            //@ remedy: Correct the name, or wait: the mark is used as soon as the interface is there.
            Some(format!(
                "configuration server.egress_marks: there is no interface {nic} now; its mark is used once it is there; correct the name \
                 if it is wrong [egress-no-interface]"
            ))
        }
    };
    marks.keys().filter_map(warning).collect()
}

/// Returns the mark of every lane. Several marked NICs of one silo are dealt out to its lanes.
fn marks_of_lanes(marks: &Marks, layout: &Layout, works: impl Fn(&str) -> bool) -> Vec<Mark> {
    let mut lanes = Vec::with_capacity(layout.lane_count());
    for silo in &layout.silos {
        let marked: Vec<(&str, u32)> =
            marks.iter().filter(|(nic, _)| has(silo, nic)).map(|(nic, &mark)| (nic.as_str(), mark)).collect();
        let working: Vec<u32> = marked.iter().filter(|(nic, _)| works(nic)).map(|&(_, mark)| mark).collect();
        lanes.extend((0..silo.lanes.len()).map(|lane| match (marked.len(), working.len()) {
            (0, _) => Mark::None,
            (_, 0) => Mark::LinkLost,
            (_, count) => Mark::Of(working[lane % count]),
        }));
    }
    lanes
}

fn has(silo: &SiloLayout, nic: &str) -> bool {
    silo.nics.iter().any(|have| have.name == nic)
}

fn works(nic: &str) -> bool {
    carries(Path::new("/"), nic)
}

/// Time for which a lost link may stay unseen: packets with its mark are lost meanwhile, and sent again.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use lane::layout::{LaneSpec, NicRef};
    use lane::topology::NicKind;

    use super::*;

    /// Makes a layout of silos of two lanes, with `nics`.
    fn layout(nics: &[&[&str]]) -> Layout {
        let silo = |(silo, nics): (usize, &&[&str])| {
            let node = Some(silo as u32);
            let lanes = [0, 1].map(|at| LaneSpec { id: 2 * silo + at, silo, cpu: 0, node });
            let kind = NicKind::Device;
            let nics = nics.iter().map(|name| NicRef { ifindex: 1, name: (*name).to_owned(), kind });
            let (cpus, nics) = (Default::default(), nics.collect());
            SiloLayout { node, cpus, lanes: lanes.into(), helper_threads: 1, nics }
        };
        Layout { silos: nics.iter().enumerate().map(silo).collect(), shared_nics: Vec::new() }
    }

    fn marks(marks: &[(&str, u32)]) -> Marks {
        marks.iter().map(|&(nic, mark)| (nic.to_owned(), mark)).collect()
    }

    #[test]
    fn lanes_carry_the_mark_of_their_silos_nic() {
        let layout = layout(&[&["a"], &["b", "c"], &["d"]]);
        let marks = marks(&[("a", 1), ("b", 2), ("elsewhere", 9)]);
        let (one, two) = (Mark::Of(1), Mark::Of(2));
        let lanes = marks_of_lanes(&marks, &layout, |_| true);
        assert_eq!(lanes, [one, one, two, two, Mark::None, Mark::None]);
    }

    #[test]
    fn nic_without_a_link_takes_its_mark_along_and_no_other_silo_is_touched() {
        let layout = layout(&[&["a"], &["b"]]);
        let marks = marks(&[("a", 1), ("b", 2)]);
        let lanes = marks_of_lanes(&marks, &layout, |nic| nic != "a");
        assert_eq!(lanes, [Mark::LinkLost, Mark::LinkLost, Mark::Of(2), Mark::Of(2)]);
    }

    #[test]
    fn several_nics_of_a_silo_are_dealt_out_and_stand_in_for_each_other() {
        let layout = layout(&[&["a", "b"]]);
        let marks = marks(&[("a", 1), ("b", 2)]);
        assert_eq!(marks_of_lanes(&marks, &layout, |_| true), [Mark::Of(1), Mark::Of(2)]);
        assert_eq!(marks_of_lanes(&marks, &layout, |nic| nic == "b"), [Mark::Of(2), Mark::Of(2)]);
    }

    #[test]
    fn lane_that_is_too_busy_is_told_again() {
        let layout = layout(&[&["lo"]]);
        let mut egress = Egress::new(&Marks::new(), &layout);
        egress.set_marks(&marks(&[("lo", 7)]));
        let mut told = Vec::new();
        for lane_0_is_busy in [true, false, false] {
            egress.follow(&layout, |lane, mark| {
                told.push((lane, mark.value()));
                !(lane_0_is_busy && lane == 0)
            });
        }
        assert_eq!(told, [(0, 7), (1, 7), (0, 7)]);

        egress.set_marks(&Marks::new());
        egress.follow(&layout, |lane, _| lane != 0);
        assert!(!egress.is_at_rest(), "lane 0 still has its mark");
        egress.follow(&layout, |_, _| true);
        assert!(egress.is_at_rest());
    }

    #[test]
    fn marks_that_nobody_will_use_are_told() {
        let mut layout = layout(&[&["a"]]);
        layout.shared_nics.push(NicRef { ifindex: 9, name: "bond0".to_owned(), kind: NicKind::Stacked });
        let warnings = warnings(&marks(&[("a", 1), ("bond0", 2), ("typo", 3)]), &layout);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("near bond0 alone") && warnings[1].contains("no interface typo now"));
    }
}
