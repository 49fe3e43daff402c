//! QUERY_DIRECTORY (MS-SMB2 3.3.5.18): names of a directory that fit a pattern, reply after reply. Between two replies an open keeps
//! which name came last, so that any lane goes on, and a name that comes or goes meanwhile moves no other.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use smb_wire::Status;
use smb_wire::body::query_directory::{QueryDirectoryRequest, flags};
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::rights::READ_DATA;
use smb_wire::dos;
use smb_wire::info::directory::{self, Class, Matcher};
use vfs::{Attributes, Directory, Entry, EntryExtended, Error, FileKind, Listing, Name, NamePage, PageEntry};

use crate::apple::AppleDirEntry;
use crate::attributes::{CachedAttributes, Info};
use crate::cached_names::DirectoryNames;
use crate::lane_handle::LaneHandle;
use crate::names;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::{ANSWER_MAX, Answer, short_names};

/// Progress of an open's enumeration.
#[derive(Clone, Debug)]
pub(crate) struct Enumeration {
    /// Pattern with its case folded.
    pattern: Arc<[char]>,
    /// Pattern as the client gave it, where it names one file.
    single: Option<Arc<str>>,
    next: ScanPosition,
    /// Number of times that it was begun anew. Names that a lane has read for a lower number are outdated.
    scan: u64,
    /// A name was given.
    has_given: bool,
}

/// The position of a scan: the next entry to report.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ScanPosition {
    This,
    Upper,
    /// The first name behind this one.
    After(Option<Box<[u8]>>),
    Nothing,
}

/// The directory that is listed, with the request and open that list it.
struct ListingSource<'a> {
    ctx: &'a RequestContext,
    open: &'a Arc<Open>,
    directory: &'a Directory,
}

/// Reason why filling a reply came to its end.
enum Filled {
    /// The next entry finds no room in it.
    NoRoom,
    /// The reply is to hold no more.
    Enough,
    /// The names at hand are all in it.
    All,
}

/// The buffer of a QUERY_DIRECTORY reply that is being filled.
struct ReplyBuffer<'a> {
    entries: EntryWriter<'a>,
    class: Class,
    is_single: bool,
    /// Set if long names are listed with the short ones beside them.
    short_names: bool,
    given: usize,
    matcher: Matcher,
    /// The name that is compared, with its case folded.
    name: Vec<char>,
    /// Steps since other tasks of the lane had a turn.
    steps: usize,
}

impl Share {
    /// Answers with the next names that fit, as many as there is room for.
    ///
    /// # Errors
    /// `STATUS_INVALID_INFO_CLASS`; `STATUS_ACCESS_DENIED`; `STATUS_NO_SUCH_FILE` where none fits at all, `STATUS_NO_MORE_FILES` behind
    /// the last; `STATUS_INFO_LENGTH_MISMATCH` without room for one.
    pub fn query_directory<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        request: &'a QueryDirectoryRequest<'a>,
    ) -> LocalBoxFuture<'a, Result<Answer, Status>> {
        Box::pin(async move {
            let class = Class::from_wire(request.fixed.file_information_class);
            let class = class.filter(|class| *class != Class::Posix || ctx.posix);
            let class = class.ok_or(Status::INVALID_INFO_CLASS)?;
            //= MS-SMB2 3.3.5.18
            //# An open of something else than a directory fails with STATUS_INVALID_PARAMETER.
            if !open.is_directory() {
                return Err(Status::INVALID_PARAMETER);
            }
            if !open.may(READ_DATA) {
                return Err(Status::ACCESS_DENIED);
            }
            let bits = request.fixed.flags;
            let mut state = begin_or_go_on(open, request, bits)?;
            let handle = self.handle(ctx, open).await?;
            if self.hides_unreadable() {
                // Whether a name is shown is looked at by its path.
                self.present_path(open, &handle).await;
            }
            if state.next == ScanPosition::This {
                handle.forget_names();
            }
            let len_max = request.fixed.output_buffer_length.get().min(ANSWER_MAX) as usize;
            if len_max < class.fixed_len() {
                return Err(Status::INFO_LENGTH_MISMATCH);
            }
            let mut output = Vec::new();
            let entries = EntryWriter::new(&mut output, 8, len_max);
            let is_single = bits & flags::RETURN_SINGLE_ENTRY != 0;
            let short_names = self.options().short_names;
            let (matcher, name) = (Matcher::default(), Vec::new());
            let mut reply =
                ReplyBuffer { entries, class, is_single, short_names, given: 0, matcher, name, steps: 0 };
            let is_full = self.fill(ctx, open, &handle, &mut state, &mut reply).await?;
            let given = reply.given;
            let had_given = state.has_given;
            state.has_given |= given > 0;
            open.state().enumeration = Some(state);
            match (given, is_full, had_given) {
                (0, true, _) => Err(Status::INFO_LENGTH_MISMATCH),
                //= MS-SMB2 3.3.5.18
                //# STATUS_NO_SUCH_FILE where nothing fits the pattern; STATUS_NO_MORE_FILES where all that does was told.
                (0, false, false) => Err(Status::NO_SUCH_FILE),
                (0, false, true) => Err(Status::NO_MORE_FILES),
                _ => Ok(Answer { status: Status::SUCCESS, output }),
            }
        })
    }

    /// Fills a reply; `true` where an entry was left out for want of room.
    async fn fill(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        handle: &Rc<LaneHandle>,
        state: &mut Enumeration,
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<bool, Status> {
        let directory = handle.directory().ok_or(Status::INVALID_PARAMETER)?;
        if let Some(single) = state.single.clone().filter(|_| state.next == ScanPosition::This) {
            let has_no_room = self.fill_single(ctx, open, directory, &single, reply).await?;
            if !has_no_room {
                state.next = ScanPosition::Nothing;
            }
            return Ok(has_no_room);
        }
        for (dots, then) in [(".", ScanPosition::Upper), ("..", ScanPosition::After(None))] {
            let is_next =
                matches!((dots, &state.next), (".", ScanPosition::This) | ("..", ScanPosition::Upper));
            if !is_next {
                continue;
            }
            if reply.fits(&state.pattern, dots) {
                let info = self.dots_info(ctx, open, handle, dots).await?;
                if !reply.push(dots, &info, None) {
                    return Ok(true);
                }
            }
            state.next = then;
            if reply.is_over() {
                return Ok(false);
            }
        }
        let source = ListingSource { ctx, open, directory };
        while let ScanPosition::After(after) = state.next.clone() {
            let after = after.as_deref();
            let names = self.names_behind(ctx, handle, directory, (state.scan, after)).await?;
            let filled = match &names {
                DirectoryNames::Whole(listing) => {
                    self.fill_of_listing(&source, listing, after, state, reply).await
                }
                DirectoryNames::Page(page) => self.fill_of_page(&source, page, after, state, reply).await?,
            };
            match filled {
                Filled::NoRoom => return Ok(true),
                Filled::Enough => return Ok(false),
                // There may be more behind its last name, where the scan is now.
                Filled::All if matches!(&names, DirectoryNames::Page(page) if !page.is_last()) => {}
                Filled::All => state.next = ScanPosition::Nothing,
            }
        }
        handle.forget_names();
        Ok(false)
    }

    /// Goes on with the names of a listing.
    async fn fill_of_listing(
        &self,
        source: &ListingSource<'_>,
        listing: &Listing,
        after: Option<&[u8]>,
        state: &mut Enumeration,
        reply: &mut ReplyBuffer<'_>,
    ) -> Filled {
        let mut entries = behind(listing, after, reply.class).peekable();
        while entries.peek().is_some() {
            let (mut batch, wanted) = (Vec::new(), reply.names_wanted());
            let mut last = None;
            while batch.len() < wanted
                && let Some(entry) = entries.next()
            {
                // A CANCEL, or the end of the connection, takes effect here.
                if reply.is_to_give_way() {
                    lane::yield_if_due().await;
                }
                let name = names::to_wire(&entry.name);
                if reply.fits(&state.pattern, &name) && self.is_listed(source.ctx, source.open, entry).await {
                    batch.push((entry, name));
                }
                last = Some(entry);
            }
            let looked = self.look_over(source.directory, &batch).await;
            for ((entry, name), looked) in batch.iter().zip(looked) {
                if let Some(ended) = self.tell_entry(source, (entry, name), looked, state, reply).await {
                    return ended;
                }
            }
            if let Some(last) = last {
                state.next = ScanPosition::After(Some(last.name.clone()));
            }
        }
        Filled::All
    }

    /// Goes on with the names of a page, of which nothing is known but that there are such names: those that fit are looked at.
    async fn fill_of_page(
        &self,
        source: &ListingSource<'_>,
        page: &NamePage,
        after: Option<&[u8]>,
        state: &mut Enumeration,
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<Filled, Status> {
        let as_links = reply.class == Class::Posix;
        let mut at = page.first_after(after);
        while at < page.len() {
            let (mut batch, mut names) = (Vec::new(), Vec::new());
            let wanted = reply.names_wanted();
            while batch.len() < wanted && at < page.len() {
                if reply.is_to_give_way() {
                    lane::yield_if_due().await;
                }
                let stored = page.name(at);
                let name = names::to_wire(stored);
                if reply.fits(&state.pattern, &name) {
                    batch.push(stored);
                    names.push(name);
                }
                at += 1;
            }
            let attribute = (dos::NAME, dos::VALUE_MAX);
            let looked = match batch.is_empty() {
                true => Vec::new(),
                false => {
                    source.directory.look_at(page, &batch, as_links, attribute).await.map_err(status::of)?
                }
            };
            for (name, looked) in names.iter().zip(looked) {
                let Some(PageEntry { entry, extended }) = looked else { continue };
                if !self.is_listed(source.ctx, source.open, &entry).await {
                    continue;
                }
                // More than is remembered: it would push out what others use.
                let looked = extended.map(|extended| (extended.attributes, CachedAttributes::of(&extended)));
                if let Some(ended) = self.tell_entry(source, (&entry, name), looked, state, reply).await {
                    return Ok(ended);
                }
            }
            state.next = ScanPosition::After(Some(page.name(at - 1).into()));
        }
        Ok(Filled::All)
    }

    /// Puts an entry into a reply, behind which the scan stands then; says where it ends with that.
    async fn tell_entry(
        &self,
        source: &ListingSource<'_>,
        (entry, name): (&Entry, &str),
        looked: Option<(Attributes, CachedAttributes)>,
        state: &mut Enumeration,
        reply: &mut ReplyBuffer<'_>,
    ) -> Option<Filled> {
        let ListingSource { ctx, open, directory } = *source;
        let info = match looked {
            Some((now, seen)) => self.info_of(&now, &seen, Some(&entry.name)),
            None => self.entry_info(ctx, directory, &entry.name, &entry.attributes).await,
        };
        let more = self.apple_entry(ctx, open, reply.class, &entry.name).await;
        if !reply.push(name, &info, more) {
            return Some(Filled::NoRoom);
        }
        state.next = ScanPosition::After(Some(entry.name.clone()));
        reply.is_over().then_some(Filled::Enough)
    }

    /// Looks at once at all names of a batch that this lane remembers nothing of.
    async fn look_over(
        &self,
        directory: &Directory,
        batch: &[(&Entry, Cow<'_, str>)],
    ) -> Vec<Option<(Attributes, CachedAttributes)>> {
        let mut found = vec![None; batch.len()];
        let is_wanted = |entry: &Entry| {
            !entry.symlink && entry.attributes.kind != FileKind::Symlink && !self.remembers(&entry.attributes)
        };
        let wanted: Vec<_> = (0..batch.len()).filter(|at| is_wanted(batch[*at].0)).collect();
        if wanted.is_empty() {
            return found;
        }
        let entries: Vec<_> = wanted.iter().map(|at| batch[*at].0).collect();
        // Where that is refused each name is looked at by itself.
        let looked = directory.entries_extended(&entries, dos::NAME, dos::VALUE_MAX).await;
        for (at, looked) in wanted.into_iter().zip(looked.unwrap_or_default()) {
            let is_it = |looked: &EntryExtended| looked.attributes.id == batch[at].0.attributes.id;
            found[at] = looked.filter(is_it).map(|looked| (looked.attributes, self.saw(&looked)));
        }
        found
    }

    async fn fill_single(
        &self,
        ctx: &RequestContext,
        open: &Open,
        directory: &Directory,
        single: &str,
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<bool, Status> {
        let Some(stored) = names::to_stored(single) else { return Ok(false) };
        let Ok(name) = Name::parse(&stored) else { return Ok(false) };
        let names_max = self.options().names_max;
        // The directory's own names are asked for, and not those of what is where it was.
        directory.confirm_place().await.map_err(status::of)?;
        let mut found = directory.lookup_folded(&ctx.caller, name, Rights::NONE, names_max).await;
        if reply.short_names
            && matches!(found, Err(Error::NotFound))
            && let Some(long) = short_names::find(self, directory, &ctx.caller, single).await?
            && let Ok(long) = Name::parse(&long)
        {
            found = directory.lookup_folded(&ctx.caller, long, Rights::NONE, names_max).await;
        }
        let (stored, found) = match found {
            Ok(found) => found,
            Err(Error::NotFound | Error::Hidden) => return Ok(false),
            Err(error) => return Err(status::of(error)),
        };
        let name = names::to_wire(&stored);
        if !self.is_shown(ctx, open, &stored).await {
            return Ok(false);
        }
        let info = self.entry_info(ctx, directory, &stored, found.attributes()).await;
        let more = self.apple_entry(ctx, open, reply.class, &stored).await;
        Ok(!reply.push(&name, &info, more))
    }

    /// Returns the extra fields of an entry for a Mac, in the class that it asks for.
    async fn apple_entry(
        &self,
        ctx: &RequestContext,
        open: &Open,
        class: Class,
        name: &[u8],
    ) -> Option<AppleDirEntry> {
        if class != Class::IdBothDirectory || !ctx.apple.lists() {
            return None;
        }
        let above = open.grants().path(self.volume())?;
        let path = Name::parse(name).and_then(|name| above.as_path().join(name)).ok()?;
        Some(self.apple_dir_entry(ctx, &names::lookup(self, path, None)).await)
    }

    /// Returns the information of a name of a directory: looked up where this lane does not remember it.
    async fn entry_info(
        &self,
        ctx: &RequestContext,
        directory: &Directory,
        name: &[u8],
        attributes: &Attributes,
    ) -> Info {
        if attributes.kind == FileKind::Symlink {
            return self.plain_info_of(attributes, name);
        }
        if let Some(info) = self.try_info_of(attributes, name) {
            return info;
        }
        if let Ok(at) = Name::parse(name)
            && let Ok(found) = directory.lookup_as(&ctx.caller, at, Rights::NONE).await
            // The directory may have gone from where it was.
            && found.attributes().id == attributes.id
            && let Ok(info) = self.info(&LaneHandle::new(found, None), Some(name)).await
        {
            return info;
        }
        // It went meanwhile, or cannot be looked at: the directory's own information is listed.
        self.plain_info_of(attributes, name)
    }

    async fn dots_info(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        handle: &LaneHandle,
        dots: &str,
    ) -> Result<Info, Status> {
        if dots == ".." {
            let path = open.grants().path(self.volume()).filter(|_| !self.is_root(open));
            let above = path.as_ref().and_then(|path| path.as_path().parent());
            if let Some(above) = above
                && let Ok(found) = self.volume().lookup_as(&ctx.caller, above, Rights::NONE).await
            {
                return self.info(&LaneHandle::new(found, None), None).await;
            }
        }
        self.info(handle, None).await
    }
}

impl ReplyBuffer<'_> {
    /// Returns true if a name, or the short one beside it, fits the pattern.
    fn fits(&mut self, pattern: &[char], name: &str) -> bool {
        self.fits_alone(pattern, name)
            || (self.short_names
                && short_names::beside(name).is_some_and(|short| self.fits_alone(pattern, &short)))
    }

    fn fits_alone(&mut self, pattern: &[char], name: &str) -> bool {
        self.name.clear();
        self.name.extend(name.chars().map(fold));
        self.matcher.fits(pattern, &self.name)
    }

    /// Counts the steps of a name, and returns true if other tasks of the lane must run before the next one.
    fn is_to_give_way(&mut self) -> bool {
        self.steps += self.matcher.take_steps() + STEPS_PER_NAME;
        let is_long = self.steps >= STEPS_PER_TURN;
        if is_long {
            self.steps = 0;
        }
        is_long
    }

    fn push(&mut self, name: &str, info: &Info, apple: Option<AppleDirEntry>) -> bool {
        let beside = if self.short_names && apple.is_none() { short_names::beside(name) } else { None };
        let (mut short_name, mut short_name_len) = ([0; 24], 0);
        if let Some(apple) = &apple {
            (short_name, short_name_len) = (apple.in_short_name(info), 24);
        } else if let Some(beside) = beside {
            let units = smb_wire::text::encoded(&beside);
            short_name[..units.len()].copy_from_slice(&units);
            short_name_len = units.len() as u8;
        }
        let entry = directory::Entry {
            name,
            file_id: info.index,
            creation_time: info.created,
            last_access_time: info.accessed,
            last_write_time: info.written,
            change_time: info.changed,
            end_of_file: info.size,
            allocation_size: info.allocation,
            file_attributes: info.attributes,
            ea_size: apple.map_or(0, |apple| apple.access),
            reparse_tag: info.reparse_tag,
            short_name,
            short_name_len,
            reserved2: if apple.is_some() { AppleDirEntry::mode(info) } else { 0 },
            device: info.device as u32,
            posix: info.posix(),
        };
        let fits = directory::write(&mut self.entries, self.class, &entry);
        self.given += usize::from(fits);
        fits
    }

    fn is_over(&self) -> bool {
        self.is_single && self.given > 0
    }

    /// Returns about how many names the room that is left takes.
    fn names_wanted(&self) -> usize {
        if self.is_single {
            return 1;
        }
        let len = self.class.fixed_len() + 2 * NAME_LEN;
        (self.entries.room() / len).clamp(1, BATCH_MAX)
    }
}

/// Returns the entries behind a name. Classes of POSIX list links as links, others what they lead to.
fn behind<'a>(listing: &'a Listing, name: Option<&[u8]>, class: Class) -> impl Iterator<Item = &'a Entry> {
    let behind = |entries: &'a [Entry]| {
        let first = name.map_or(0, |name| entries.partition_point(|entry| *entry.name <= *name));
        entries[first..].iter().peekable()
    };
    let sees_links = class == Class::Posix;
    let mut others = behind(listing);
    let mut links = behind(if sees_links { listing.links() } else { &[] });
    std::iter::from_fn(move || {
        while sees_links && others.next_if(|entry| entry.symlink).is_some() {}
        match (others.peek(), links.peek()) {
            (Some(other), Some(link)) if link.name < other.name => links.next(),
            (None, _) => links.next(),
            (Some(_), _) => others.next(),
        }
    })
}

/// Returns the open's enumeration, begun anew where the request says so.
fn begin_or_go_on(open: &Open, request: &QueryDirectoryRequest<'_>, bits: u8) -> Result<Enumeration, Status> {
    let known = open.state().enumeration.clone();
    // No name is longer, and a comparison costs the product of both lengths.
    if request.pattern.len() > PATTERN_MAX {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    let pattern = request.pattern.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
    let is_anew = bits & (flags::RESTART_SCANS | flags::REOPEN) != 0;
    match known {
        //= MS-SMB2 3.3.5.18
        //# The pattern of the first request counts until a scan is begun anew.
        Some(known) if !is_anew => Ok(known),
        _ => {
            if pattern.is_empty() || pattern.contains(['\\', '/']) {
                return Err(Status::OBJECT_NAME_INVALID);
            }
            let is_pattern = pattern.contains(['*', '?', '<', '>', '"']);
            let single = (!is_pattern && !matches!(&*pattern, "." | "..")).then(|| pattern.as_str().into());
            let mut pattern = folded(&pattern);
            // A run of stars fits what one star fits.
            pattern.dedup_by(|next, before| (*next, *before) == ('*', '*'));
            let (pattern, scan) = (pattern.into(), known.map_or(0, |known| known.scan + 1));
            let begun = Enumeration { pattern, single, next: ScanPosition::This, scan, has_given: false };
            // It is begun anew even where the buffer is too short for any name.
            open.state().enumeration = Some(begun.clone());
            Ok(begun)
        }
    }
}

/// Folds the case of a pattern or name, as they are compared.
pub(crate) fn folded(name: &str) -> Vec<char> {
    name.chars().map(fold).collect()
}

fn fold(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// UTF-16 units of a pattern, as of a name.
const PATTERN_MAX: usize = 255;
//@ limit: steps of comparing names with a pattern
//@ section: SMB
//@ unit: step
//@ connection: a pattern of {PATTERN_MAX} units; others have a turn every {} steps
//@ empty: STATUS_OBJECT_NAME_INVALID; others wait a tenth of a millisecond
//@ counter: none
//@ attack: smb-patterns
/// Steps of comparing before other tasks of the lane get a turn: about a tenth of a millisecond. One name costs no more.
const STEPS_PER_TURN: usize = 64 << 10;
/// UTF-16 units of a common name.
const NAME_LEN: usize = 12;
/// Names that one look by a helper is for: about a millisecond.
const BATCH_MAX: usize = 512;
/// Steps that a name costs beside the comparison.
const STEPS_PER_NAME: usize = STEPS_PER_TURN / 256;
