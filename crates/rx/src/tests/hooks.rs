//! Hooks by which tests change an endpoint as years of use would.

use crate::packet::Packet;
use crate::{ConnectionHandle, Endpoint};

impl Endpoint {
    fn connection_mut(&mut self, handle: ConnectionHandle) -> &mut crate::connection::Connection {
        self.connections.get_mut(handle.index as usize).expect("open")
    }

    /// Sets the call numbers as if each channel had had a number of calls.
    pub(super) fn set_call_numbers(&mut self, handle: ConnectionHandle, numbers: [u32; 4]) {
        let channels = &mut self.connection_mut(handle).channels;
        channels.iter_mut().zip(numbers).for_each(|(channel, number)| channel.number = number);
    }

    /// Sets the serial as if a number of packets had been sent.
    pub(super) fn skip_serials(&mut self, handle: ConnectionHandle, count: u32) {
        let core = &mut self.connection_mut(handle).core;
        core.serial = core.serial.wrapping_add(count);
    }

    /// Returns the reordering that the calls under way expect.
    pub(super) fn reordering_expected(&self) -> Vec<Option<u32>> {
        let channels = self.connections.iter().flat_map(|(_, connection)| &connection.channels);
        channels.filter_map(|channel| Some(channel.call.as_ref()?.recovery.reordering())).collect()
    }

    /// Takes all free packets of the pool.
    pub(super) fn take_all_packets(&mut self) -> Vec<Packet> {
        std::iter::from_fn(|| self.shared.pool.alloc()).collect()
    }

    pub(super) fn give_packets(&mut self, packets: Vec<Packet>) {
        packets.into_iter().for_each(|packet| self.shared.pool.free(packet));
    }
}
