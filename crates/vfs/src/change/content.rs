//! A file's content changes, and with its length what the volume holds.

use std::rc::Rc;

use super::Writer;
use super::writer::Step;
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::promise::What;
use crate::usage::{ContentChange, Reach};
use crate::volume::Volume;

impl Writer {
    /// Has `work` change the content, as [`Writer::change`] does, with room taken for what it adds. `work` is told how long
    /// the file is, if it goes [beyond](Reach::Beyond) that.
    pub(super) async fn change_content<T: 'static>(
        &self,
        caller: &Caller,
        step: Step<'_>,
        reach: Reach,
        work: impl AsyncFnOnce(Rc<OpenFile>, u64) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
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
            let done = work(file, end).await;
            content.into_iter().for_each(|content| content.end(done.is_ok()));
            done
        };
        // Two that append at once would begin at the same end.
        let step = Step { alone: matches!(reach, Reach::Beyond(_)), ..step };
        self.change_by(caller, What::Content, step, before, work).await
    }
}
