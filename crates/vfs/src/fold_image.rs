//! The names of one directory in any case, as a lane keeps them and brings them up to date change by change:
//! a client that makes a thousand files asks before each whether its name is there in another case, and the
//! directory is read once for all of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use index::Version;
use smallvec::SmallVec;

use crate::attributes::ChangeToken;
use crate::directory::Directory;
use crate::error::Error;
use crate::fold::fold;
use crate::name::Name;
use crate::object::{Edit, Log, Object};

/// Names by what their spellings have in common.
pub(crate) struct FoldedImage {
    object: Weak<Object>,
    log: Arc<Log>,
    version: Cell<Version>,
    /// Change token of the directory: where it changes and the version does not, another program has changed it.
    token: Cell<ChangeToken>,
    read_at: Instant,
    names: RefCell<HashMap<Box<[u8]>, Spellings>>,
    count: Cell<usize>,
    /// Number of names beyond which the image is made anew; the cache weighs it as if it had so many.
    count_max: usize,
}

/// Stored spellings of a name, in the order of their bytes.
type Spellings = SmallVec<[Box<[u8]>; 1]>;

impl Directory {
    /// Returns the image of this directory as it is now. `None` where it has no object, or changes so fast that it
    /// cannot be read.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with more than `max` names; those of the file system.
    pub(crate) async fn folded_image(&self, max: usize) -> Result<Option<Rc<FoldedImage>>, Error> {
        let Some(object) = self.object() else { return Ok(None) };
        let image = match self.cached_image(object) {
            Some(image) => Some(image),
            // A caller that finds a reading under way waits for it, once.
            None if self.readers().wait_for_one().await => self.cached_image(object),
            None => None,
        };
        let image = match image {
            Some(image) => Some(image),
            None => {
                let _reading = self.readers().begin();
                self.read_image(object, max).await?
            }
        };
        match image {
            Some(image) if image.count.get() > max => Err(Error::TooLarge { max }),
            image => Ok(image),
        }
    }

    fn cached_image(&self, object: &Arc<Object>) -> Option<Rc<FoldedImage>> {
        let cache = self.volume().cache();
        let image = cache.find_image(self.volume().key(self.path()))?;
        let now = self.attributes().ok()?.change_token();
        let holds = image.age() < cache.options().listing_ttl.max(NAMES_TTL) && image.catch_up(object, now);
        holds.then(|| {
            self.volume().counters().images_used.increment();
            image
        })
    }

    async fn read_image(&self, object: &Arc<Object>, max: usize) -> Result<Option<Rc<FoldedImage>>, Error> {
        let (volume, log) = (self.volume(), object.keep_log());
        for _ in 0..READINGS_MAX {
            // A change that is under way may have begun before there was a log.
            volume.wait_until_unchanging(object).await?;
            let (version, before, read_at) = (object.version(), self.attributes()?, lane::time::now());
            volume.counters().listings.increment();
            let names = self.listed_names(max).await?;
            let is_still = object.version() == version && !object.is_changing();
            if is_still && !self.attributes()?.is_changed_since(&before) {
                let token = before.change_token();
                let image = FoldedImage::new(object, log, version, token, read_at, names).await;
                let image = Rc::new(image);
                volume.cache().keep_image(volume.key(self.path()), Rc::clone(&image));
                return Ok(Some(image));
            }
        }
        Ok(None)
    }
}

impl FoldedImage {
    async fn new(
        object: &Arc<Object>,
        log: Arc<Log>,
        version: Version,
        token: ChangeToken,
        read_at: Instant,
        names: Vec<Vec<u8>>,
    ) -> Self {
        let image = Self {
            object: Arc::downgrade(object),
            log,
            version: Cell::new(version),
            token: Cell::new(token),
            read_at,
            names: RefCell::new(HashMap::with_capacity(names.len())),
            count: Cell::new(0),
            count_max: 2 * names.len() + SLACK,
        };
        for (at, name) in names.into_iter().enumerate() {
            if at % NAMES_PER_TURN == NAMES_PER_TURN - 1 {
                lane::yield_if_due().await;
            }
            image.add(name.into());
        }
        image
    }

    /// Puts in what has come and gone since; `false` where that does not lead to the directory as it is, whose token
    /// is `now`.
    fn catch_up(&self, object: &Arc<Object>, now: ChangeToken) -> bool {
        if !std::ptr::eq(self.object.as_ptr(), Arc::as_ptr(object)) {
            return false;
        }
        let mut version = self.version.get();
        let Some(edits) = self.log.catch_up(object, &mut version) else { return false };
        if version == self.version.get() {
            return now == self.token.get() || object.is_changing();
        }
        for edit in edits {
            match edit {
                Edit::Added { name, .. } => self.add(name),
                Edit::Removed { name } => self.remove(&name),
            }
        }
        self.version.set(version);
        self.token.set(now);
        self.count.get() <= self.count_max
    }

    /// Returns the names that equal this one in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Spellings {
        self.names.borrow().get(&*fold(name)).cloned().unwrap_or_default()
    }

    fn add(&self, name: Box<[u8]>) {
        // A name that no client can ask for is left out.
        if Name::parse(&name).is_err() {
            return;
        }
        let mut names = self.names.borrow_mut();
        let spellings = names.entry(fold(&name).into()).or_default();
        if let Err(at) = spellings.binary_search(&name) {
            spellings.insert(at, name);
            self.count.update(|count| count + 1);
        }
    }

    fn remove(&self, name: &[u8]) {
        let mut names = self.names.borrow_mut();
        let folded = fold(name);
        let Some(spellings) = names.get_mut(&*folded) else { return };
        if let Ok(at) = spellings.binary_search_by(|spelling| (**spelling).cmp(name)) {
            spellings.remove(at);
            self.count.update(|count| count - 1);
        }
        if spellings.is_empty() {
            names.remove(&*folded);
        }
    }

    /// Returns the time since the image was read.
    pub(crate) fn age(&self) -> Duration {
        lane::time::now().saturating_duration_since(self.read_at)
    }

    /// Returns what it holds at most, for its cache.
    pub(crate) fn weight(&self) -> u64 {
        self.count_max as u64
    }
}

/// Largest number of shared readings of a directory that changes meanwhile; then each caller reads it by
/// itself.
const READINGS_MAX: u32 = 2;
/// Number of names that a small directory may grow by before it is read again.
const SLACK: usize = 64;
const NAMES_PER_TURN: usize = 1024;
/// Least time for which names are valid; changes of them are reported.
const NAMES_TTL: Duration = Duration::from_secs(10);
