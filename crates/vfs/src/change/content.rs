//! A file's content changes, and with its length what the volume holds.

use std::rc::Rc;

use coherence::ChangeKind;
use lane::fs::AttributeChange;

use super::Writer;
use super::writer::WriteStep;
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::usage::{ContentChange, Reach};
use crate::volume::Volume;

impl Writer {
    /// Has `work` change the content, as [`Writer::change`] does, with room taken for what it adds. `work` gets the
    /// length of the file, if it goes [beyond](Reach::Beyond) that.
    pub(super) async fn change_content<T: 'static>(
        &self,
        caller: &Caller,
        step: WriteStep<'_>,
        reach: Reach,
        work: impl AsyncFnOnce(Rc<OpenFile>, u64) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
        let (sheds, archives) = (sheds(caller), step.archives);
        let before = move |volume: &Volume, file: &Rc<OpenFile>| {
            let content = ContentChange::begin(volume, file, reach)?;
            let end =
                if matches!(reach, Reach::Beyond(_)) { file.attributes().map(|is| is.size) } else { Ok(0) };
            match end {
                Ok(end) => Ok((end, content)),
                Err(error) => {
                    content.into_iter().for_each(|content| content.end(false));
                    Err(error)
                }
            }
        };
        let work = async move |file: Rc<OpenFile>, (end, content): (u64, Option<ContentChange>)| {
            let archived = archives.then(|| Rc::clone(&file));
            let done = match shed(&file, sheds).await {
                Ok(()) => work(file, end).await,
                Err(error) => Err(error),
            };
            content.into_iter().for_each(|content| content.end(done.is_ok()));
            if let Some(file) = archived.filter(|_| done.is_ok())
                && let Some(object) = file.object()
            {
                object.turn_archive_on(file.lane_file()).await;
            }
            done
        };
        // Two that append at once would begin at the same end.
        let step = WriteStep { alone: step.alone || matches!(reach, Reach::Beyond(_)), ..step };
        self.change_by(caller, ChangeKind::Content, step, before, work).await
    }
}

/// Returns whether a file loses its set-user-id and set-group-id bits when `caller` changes its content. Any user's
/// change does that, whatever it is, but for those of the administrator of the machine.
fn sheds(caller: &Caller) -> bool {
    !caller.principal.is_local_administrator()
}

/// Takes set-user-id and set-group-id bits from a file whose content is about to change, if it `sheds` them. A program
/// with new content is not to run with the rights of the one before. The kernel does the same only where the server
/// has no privilege that spares it.
///
/// # Errors
/// Those of the file system: the content is not to be changed then.
async fn shed(file: &OpenFile, sheds: bool) -> Result<(), Error> {
    if !sheds {
        return Ok(());
    }
    let mode = file.attributes()?.mode;
    let left = without_set_id(mode);
    if left == mode {
        return Ok(());
    }
    let change = AttributeChange { mode: Some(left), ..AttributeChange::NONE };
    file.lane_file().set_attributes(change).await.map_err(Error::of_write)
}

/// Returns what the kernel leaves of a mode when a process without privilege writes. A set-group-id bit
/// without the group's execution is none.
fn without_set_id(mode: u32) -> u32 {
    let group = if mode & GROUP_EXECUTES == 0 { 0 } else { SET_GROUP_ID };
    mode & !(SET_USER_ID | group)
}

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;
