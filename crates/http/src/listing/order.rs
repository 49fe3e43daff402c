//! Orders of a listing: by name as people count, by size, by time; directories always first.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::Row;

/// Order of a listing. Directories always come before files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Key that is compared.
    pub key: Key,
    /// Largest, newest or last name first.
    pub descending: bool,
}

/// Key that a listing is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// Name, with numbers in it by value: `a2` before `a10`.
    #[default]
    Name,
    /// Size.
    Size,
    /// Time of the last change.
    Modified,
}

/// The orders that one directory's entries were asked for in, each made once and kept with them: four bytes for an
/// entry and order.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    slots: [RefCell<OrderSlot>; 6],
}

#[derive(Debug, Default)]
enum OrderSlot {
    #[default]
    Empty,
    /// A request sorts; these wait for it.
    Making(Vec<Waker>),
    Made(Rc<[u32]>),
}

impl Order {
    /// Reads `sort=name|size|modified` and `order=asc|desc` from a query; anything else is ignored.
    pub fn from_query(query: Option<&[u8]>) -> Self {
        let mut order = Self::default();
        for pair in query.unwrap_or_default().split(|byte| *byte == b'&') {
            match pair {
                b"sort=name" => order.key = Key::Name,
                b"sort=size" => order.key = Key::Size,
                b"sort=modified" => order.key = Key::Modified,
                b"order=desc" => order.descending = true,
                _ => {}
            }
        }
        order
    }

    /// Returns which of two comes first; equals by name.
    pub fn compare(self, a: Row<'_>, b: Row<'_>) -> Ordering {
        let by_key = match self.key {
            Key::Name => natural(a.name, b.name),
            Key::Size => a.size.cmp(&b.size),
            Key::Modified => a.modified_s.cmp(&b.modified_s),
        };
        let by_key = if self.descending { by_key.reverse() } else { by_key };
        b.directory.cmp(&a.directory).then(by_key).then_with(|| natural(a.name, b.name))
    }

    fn slot(self) -> usize {
        self.key as usize * 2 + usize::from(self.descending)
    }
}

impl Key {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Size => "size",
            Self::Modified => "modified",
        }
    }
}

impl Orders {
    /// Returns the places of `entries` in this order. However many ask at once, one sorts.
    pub(crate) async fn get(&self, entries: &[vfs::Entry], order: Order) -> Rc<[u32]> {
        let slot = &self.slots[order.slot()];
        if let Some(made) = poll_fn(|cx| OrderSlot::poll_made(slot, cx.waker())).await {
            return made;
        }
        let begun = SortGuard(slot);
        let made = vfs::order_in_turns(entries, |a, b| order.compare(a.into(), b.into())).await;
        let made: Rc<[u32]> = made.into();
        begun.0.replace(OrderSlot::Made(Rc::clone(&made))).wake();
        made
    }
}

impl OrderSlot {
    /// Polls for the order; ready with `None` for the request that is to make it.
    fn poll_made(slot: &RefCell<Self>, waker: &Waker) -> Poll<Option<Rc<[u32]>>> {
        let mut slot = slot.borrow_mut();
        match &mut *slot {
            Self::Made(made) => Poll::Ready(Some(Rc::clone(made))),
            Self::Making(waiting) => {
                if !waiting.iter().any(|known| known.will_wake(waker)) {
                    waiting.push(waker.clone());
                }
                Poll::Pending
            }
            Self::Empty => {
                *slot = Self::Making(Vec::new());
                Poll::Ready(None)
            }
        }
    }

    fn wake(self) {
        if let Self::Making(waiting) = self {
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// A sort under way; dropped unfinished, it lets another task sort.
struct SortGuard<'a>(&'a RefCell<OrderSlot>);

impl Drop for SortGuard<'_> {
    fn drop(&mut self) {
        if matches!(*self.0.borrow(), OrderSlot::Making(_)) {
            self.0.take().wake();
        }
    }
}

/// Compares names without regard to ASCII case and with runs of digits by value, then by bytes.
pub(super) fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let ([x, ..], [y, ..]) = (left, right) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (x_number, x_rest) = take_number(left);
            let (y_number, y_rest) = take_number(right);
            let order = x_number.len().cmp(&y_number.len()).then_with(|| x_number.cmp(y_number));
            if order.is_ne() {
                return order;
            }
            (left, right) = (x_rest, y_rest);
        } else {
            let order = x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase());
            if order.is_ne() {
                return order;
            }
            (left, right) = (&left[1..], &right[1..]);
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Returns the run of digits at the start, without leading zeros, and what follows it.
fn take_number(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(len);
    let zeros = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    (&digits[zeros..], rest)
}
