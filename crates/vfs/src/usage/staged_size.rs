//! Room that a file takes of its volume before it has a name.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use lane::fs::File;

use super::{Charge, attribute_bytes};
use crate::error::Error;
use crate::object::Object;
use crate::volume::Volume;

/// Room for a file that is being written and has no name yet. Dropped, it is given back.
pub(crate) struct StagedSize {
    /// `None` once it has a name.
    charge: RefCell<Option<Charge>>,
    end: Cell<u64>,
    /// Bytes of attributes that it has been given.
    attributes: Cell<u64>,
}

impl StagedSize {
    /// Takes room for an empty file.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub(crate) fn begin(volume: &Volume) -> Result<Self, Error> {
        let charge = RefCell::new(Some(volume.charge(1, 0)?));
        Ok(Self { charge, end: Cell::new(0), attributes: Cell::new(0) })
    }

    /// Takes room for `len` bytes that are about to be written at `offset`.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub(crate) fn reach(&self, offset: u64, len: usize) -> Result<(), Error> {
        let end = offset.saturating_add(len as u64);
        if let Some(charge) = &mut *self.charge.borrow_mut() {
            charge.add(end.saturating_sub(self.end.get()))?;
        }
        self.end.update(|before| before.max(end));
        Ok(())
    }

    /// Takes room for the attributes that the file has been given.
    ///
    /// # Errors
    /// [`Error::Quota`]; those of looking at the file.
    pub(crate) async fn reach_attributes(&self, file: &File) -> Result<(), Error> {
        if !self.charge.borrow().as_ref().is_some_and(Charge::is_counted) {
            return Ok(());
        }
        let bytes = attribute_bytes(file).await?;
        if let Some(charge) = &mut *self.charge.borrow_mut() {
            charge.add(bytes.saturating_sub(self.attributes.get()))?;
        }
        self.attributes.update(|before| before.max(bytes));
        Ok(())
    }

    /// Notes that the file has a name in `directory`, and this size, if that is known.
    pub(crate) fn made_in(&self, volume: &Volume, directory: &Arc<Object>, size: Option<u64>) {
        if let Some(charge) = self.charge.take() {
            charge.made_of(volume, directory, size.unwrap_or(self.end.get()) + self.attributes.get());
        }
    }
}
