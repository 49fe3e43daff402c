//! Assignment of NICs to lanes, as selectors need it.

use std::ops::Range;

use crate::layout::Layout;

/// Silos of a server. Lane ids run through all silos without a gap, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    silos: Vec<SteeredSilo>,
}

/// Interfaces and lanes of one silo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeredSilo {
    /// Indices of the interfaces that the silo serves.
    pub ifindexes: Vec<u32>,
    /// Ids of the silo's lanes.
    pub lanes: Range<usize>,
}

/// Reason why lanes or interfaces cannot be steered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// A silo is empty or does not continue the lanes of the silo before.
    #[error("silo {0} must have at least one lane, numbered on from the silo before it")]
    Lanes(usize),
    /// The lanes are more than a selector can name.
    #[error("{0} lanes; at most {LANES_MAX} can share an address")]
    TooManyLanes(usize),
    /// An interface is in two silos.
    #[error("interface {0} is served by more than one silo")]
    SharedInterface(u32),
}

/// Most lanes, which bounds the selector's jumps to what classic BPF can span.
pub const LANES_MAX: usize = 256;

impl Steering {
    /// Makes a steering of silos, with lanes numbered without gaps and one silo for every interface.
    pub fn new(silos: Vec<SteeredSilo>) -> Result<Self, SteeringError> {
        let mut next_lane = 0;
        for (at, silo) in silos.iter().enumerate() {
            if silo.lanes.start != next_lane || silo.lanes.is_empty() {
                return Err(SteeringError::Lanes(at));
            }
            next_lane = silo.lanes.end;
        }
        match next_lane {
            0 => return Err(SteeringError::Lanes(0)),
            lanes if lanes > LANES_MAX => return Err(SteeringError::TooManyLanes(lanes)),
            _ => {}
        }
        let mut ifindexes: Vec<u32> = silos.iter().flat_map(|silo| silo.ifindexes.iter().copied()).collect();
        ifindexes.sort_unstable();
        match ifindexes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(SteeringError::SharedInterface(pair[0])),
            None => Ok(Self { silos }),
        }
    }

    /// Makes the steering of a layout's silos.
    pub fn by_layout(layout: &Layout) -> Result<Self, SteeringError> {
        let steered = |silo: &crate::layout::SiloLayout| {
            let first = silo.lanes.first().map_or(0, |lane| lane.id);
            SteeredSilo {
                ifindexes: silo.nics.iter().map(|nic| nic.ifindex).collect(),
                lanes: first..first + silo.lanes.len(),
            }
        };
        Self::new(layout.silos.iter().map(steered).collect())
    }

    /// Makes a steering of `lanes` lanes in one silo, whatever NIC packets come by.
    pub fn single_silo(lanes: usize) -> Result<Self, SteeringError> {
        Self::new(vec![SteeredSilo { ifindexes: Vec::new(), lanes: 0..lanes }])
    }

    /// Returns the silos in order of their lanes.
    pub fn silos(&self) -> &[SteeredSilo] {
        &self.silos
    }

    /// Returns the number of lanes of all silos.
    pub fn lane_count(&self) -> usize {
        self.silos.last().map_or(0, |silo| silo.lanes.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silo(ifindexes: &[u32], lanes: Range<usize>) -> SteeredSilo {
        SteeredSilo { ifindexes: ifindexes.to_vec(), lanes }
    }

    #[test]
    fn lanes_are_numbered_without_gaps() {
        assert!(Steering::new(vec![silo(&[1], 0..2), silo(&[2], 2..3)]).is_ok());
        assert_eq!(Steering::new(vec![silo(&[], 0..2), silo(&[], 3..4)]), Err(SteeringError::Lanes(1)));
        assert_eq!(Steering::new(vec![silo(&[], 0..2), silo(&[], 2..2)]), Err(SteeringError::Lanes(1)));
        assert_eq!(Steering::new(vec![]), Err(SteeringError::Lanes(0)));
        assert_eq!(Steering::single_silo(257), Err(SteeringError::TooManyLanes(257)));
    }

    #[test]
    fn interface_has_one_silo() {
        let twice = vec![silo(&[1, 2], 0..1), silo(&[2], 1..2)];
        assert_eq!(Steering::new(twice), Err(SteeringError::SharedInterface(2)));
    }
}
