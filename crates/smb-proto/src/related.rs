//! Context that the requests of a compound hand on to each other (MS-SMB2 3.3.5.2.7.2): session, tree and
//! file, or the failure of one on which the next depends.

use smb_wire::header::flags;
use smb_wire::{Command, FileId, Header, Status};

/// Walks a compound's requests, one [`Compound::begin`] and one [`Compound::end`] each.
#[derive(Debug, Default)]
pub struct Compound {
    begun: usize,
    /// The first claimed to be related: there is nothing to go on with until one does not.
    is_broken: bool,
    session_id: Option<u64>,
    tree_id: Option<u32>,
    file: File,
}

/// The file of the operation before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum File {
    /// The request before had no result of this kind.
    #[default]
    None,
    Open(FileId),
    /// The request before should have had one, and failed.
    Failed(Status),
}

/// The session, tree and file that a request of a compound is processed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompoundContext {
    /// The session; 0 in requests that have none.
    pub session_id: u64,
    /// The tree; 0 in requests that have none.
    pub tree_id: u32,
    /// The file, in requests that are about one.
    pub file_id: Option<FileId>,
}

impl Compound {
    /// Creates the context of a frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns what the next request is processed with; `named` is the file that its body names, if it names
    /// one.
    ///
    /// # Errors
    /// The status that it fails with. It has to be ended all the same.
    pub fn begin(
        &mut self,
        header: &Header,
        command: Command,
        named: Option<FileId>,
    ) -> Result<CompoundContext, Status> {
        self.begun += 1;
        let related = header.has(flags::RELATED_OPERATIONS);
        //= MS-SMB2 3.3.5.2.7.2
        //# A first operation that claims to be related fails the chain.
        self.is_broken = related && (self.is_broken || self.begun == 1);
        if self.is_broken {
            return Err(Status::INVALID_PARAMETER);
        }
        // The specification would have no unrelated operation among related ones; Windows begins anew with it.
        let own = CompoundContext {
            session_id: header.session_id.get(),
            tree_id: own_tree(header),
            file_id: named,
        };
        if !related {
            (self.session_id, self.tree_id, self.file) = (None, None, File::None);
            return Ok(own);
        }
        let session_id = self.session_id.ok_or(Status::INVALID_PARAMETER);
        let tree_id = self.tree_id.ok_or(Status::INVALID_PARAMETER);
        let file_id = match (named, self.file) {
            (None, _) => None,
            (Some(_), File::Open(file_id)) => Some(file_id),
            //= MS-SMB2 3.3.5.2.7.2
            //# An operation on a file that the one before failed to open fails likewise; without any it is INVALID_HANDLE.
            (Some(_), File::Failed(status)) => return Err(status),
            (Some(_), File::None) => return Err(Status::INVALID_HANDLE),
        };
        Ok(CompoundContext {
            session_id: if command.needs_session() {
                session_id?
            } else {
                session_id.unwrap_or(own.session_id)
            },
            tree_id: if command.needs_tree() { tree_id? } else { tree_id.unwrap_or(own.tree_id) },
            file_id,
        })
    }

    /// Ends the request, with what it was processed or what it made: a session set up, a tree connected, a
    /// file opened. `used` is what [`Compound::begin`] gave, in which the caller has put what is new.
    pub fn end(&mut self, command: Command, used: Result<CompoundContext, Status>, status: Status) {
        match used {
            Ok(context) if !status.is_error() => {
                self.session_id = (context.session_id != 0).then_some(context.session_id);
                self.tree_id = (context.tree_id != 0).then_some(context.tree_id);
                self.file = match context.file_id {
                    Some(file_id) => File::Open(file_id),
                    None if has_file(command) => File::Failed(Status::INVALID_HANDLE),
                    None => self.file,
                };
            }
            Ok(context) => {
                //= MS-SMB2 3.3.5.2.7.2
                //# Where the operation before had no session or tree that is, STATUS_INVALID_PARAMETER.
                let has_session = command != Command::SessionSetup && status != Status::USER_SESSION_DELETED;
                let has_tree = command != Command::TreeConnect && status != Status::NETWORK_NAME_DELETED;
                self.session_id = (context.session_id != 0 && has_session).then_some(context.session_id);
                self.tree_id = (context.tree_id != 0 && has_tree).then_some(context.tree_id);
                // The specification would fail whatever follows a failure. A file that is open stays so here, as with
                // Windows and Samba: else the CLOSE that clients put last would leave it open after a bad question.
                if has_file(command) {
                    self.file = context.file_id.map_or(File::Failed(status), File::Open);
                }
            }
            // It was not processed: what follows depends on it no less.
            Err(status) if has_file(command) => self.file = File::Failed(status),
            Err(_) => {}
        }
    }
}

/// Returns whether a command opens a file or is about one.
fn has_file(command: Command) -> bool {
    command == Command::Create || command.file_id_offset().is_some()
}

fn own_tree(header: &Header) -> u32 {
    // Where an AsyncId stands there is no tree.
    if header.async_id().is_some() { 0 } else { header.tree_id.get() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: fn() -> FileId = || FileId::new(1, 2);

    fn header(command: Command, related: bool) -> Header {
        let mut header = Header::request(command, 1);
        header.session_id.set(if related { u64::MAX } else { 5 });
        header.tree_id.set(if related { u32::MAX } else { 6 });
        if related { header.with(flags::RELATED_OPERATIONS) } else { header }
    }

    /// Runs requests that end with the given statuses; a CREATE that succeeds opens [`OPEN`].
    fn run(requests: &[(Command, bool, Status)]) -> Vec<Result<CompoundContext, Status>> {
        let mut compound = Compound::new();
        let mut all = Vec::new();
        for (command, related, status) in requests {
            let named = command.file_id_offset().map(|_| FileId::RELATED);
            let begun = compound.begin(&header(*command, *related), *command, named);
            all.push(begun);
            let mut used = begun;
            if let (Ok(context), Command::Create, Status::SUCCESS) = (&mut used, command, *status) {
                context.file_id = Some(OPEN());
            }
            compound.end(*command, used, begun.err().unwrap_or(*status));
        }
        all
    }

    #[test]
    fn related_requests_go_on_with_what_was_opened() {
        use Command::{Close, Create, Echo, QueryInfo};
        let ok = Status::SUCCESS;
        let steps = run(&[(Create, false, ok), (QueryInfo, true, ok), (Echo, true, ok), (Close, true, ok)]);
        let file = CompoundContext { session_id: 5, tree_id: 6, file_id: Some(OPEN()) };
        assert_eq!(
            steps,
            [
                Ok(CompoundContext { file_id: None, ..file }),
                Ok(file),
                Ok(CompoundContext { file_id: None, ..file }),
                Ok(file)
            ]
        );
    }

    #[test]
    fn what_depends_on_a_failure_fails_likewise() {
        use Command::{Close, Create, Echo, QueryInfo};
        let missing = Status::OBJECT_NAME_NOT_FOUND;
        let steps = run(&[
            (Create, false, missing),
            (QueryInfo, true, Status::SUCCESS),
            (Close, true, Status::SUCCESS),
            (Create, true, Status::SUCCESS),
            (Close, true, Status::SUCCESS),
        ]);
        assert_eq!(steps[1..3], [Err(missing), Err(missing)]);
        assert_eq!(steps[4].unwrap().file_id, Some(OPEN()), "a file that was opened later is gone on with");
        let steps = run(&[(Echo, false, Status::SUCCESS), (Close, true, Status::SUCCESS)]);
        assert_eq!(steps[1], Err(Status::INVALID_HANDLE));
    }

    #[test]
    fn a_file_is_closed_after_a_question_about_it_that_failed() {
        use Command::{Close, Create, QueryInfo};
        let steps = run(&[
            (Create, false, Status::SUCCESS),
            (QueryInfo, true, Status::INVALID_INFO_CLASS),
            (Close, true, Status::SUCCESS),
        ]);
        assert_eq!(steps[2].unwrap().file_id, Some(OPEN()));
    }

    #[test]
    fn without_a_session_or_a_tree_to_go_on_with_the_parameters_are_invalid() {
        use Command::{Close, Create, SessionSetup, TreeConnect};
        let failed =
            run(&[(SessionSetup, false, Status::LOGON_FAILURE), (TreeConnect, true, Status::SUCCESS)]);
        assert_eq!(failed[1], Err(Status::INVALID_PARAMETER));
        let failed = run(&[(TreeConnect, false, Status::BAD_NETWORK_NAME), (Create, true, Status::SUCCESS)]);
        assert_eq!(failed[1], Err(Status::INVALID_PARAMETER));
        for gone in [Status::USER_SESSION_DELETED, Status::NETWORK_NAME_DELETED] {
            let failed = run(&[(Close, false, gone), (Close, true, Status::SUCCESS)]);
            assert_eq!(failed[1], Err(Status::INVALID_PARAMETER), "{gone:?}");
        }
    }

    #[test]
    fn the_first_is_never_related_and_one_that_is_not_begins_anew() {
        use Command::{Close, Create};
        let ok = Status::SUCCESS;
        let steps = run(&[(Create, true, ok), (Close, true, ok)]);
        assert_eq!(steps, [Err(Status::INVALID_PARAMETER); 2]);
        let steps = run(&[(Create, true, ok), (Create, false, ok), (Close, true, ok)]);
        assert_eq!(steps[2].unwrap().file_id, Some(OPEN()));
        let steps = run(&[(Create, false, ok), (Close, true, ok), (Close, false, ok), (Close, true, ok)]);
        assert_eq!(steps[2].unwrap().file_id, Some(FileId::RELATED), "what it names is its own business");
        assert_eq!(steps[3].unwrap().file_id, Some(FileId::RELATED));
    }
}
