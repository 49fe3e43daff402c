//! Conditional requests (RFC 9110 13), evaluated in the order of section 13.2.2.

use std::time::SystemTime;

use vfs::{Attributes, VersionCertainty};

use crate::date;
use crate::encoding::Coding;
use crate::etag::ETag;
use crate::request::{Fields, Method};

/// Validators that a conditional request is judged by: one version of one representation.
#[derive(Clone, Copy, Debug)]
pub struct Validators {
    /// Entity tag. Strong unless the version is not settled yet.
    pub etag: ETag,
    /// Last-Modified, seconds since 1970. `None` where no date says when the content changed, which meets no condition.
    pub modified_s: Option<i64>,
    /// The date is a strong validator (RFC 9110 8.8.2.2), once its second is over.
    pub is_date_strong: bool,
}

impl Validators {
    /// Makes the validators of what a file is at `now`, where its name has this standing, in a coding, on a
    /// volume that [distrusts](vfs::Volume::distrusts_before) what is older than this: the table of
    /// docs/design/http.md.
    pub fn of(
        attributes: &Attributes,
        distrusts_before: u32,
        coding: Option<Coding>,
        standing: VersionCertainty,
        now: SystemTime,
    ) -> Self {
        let version = attributes.version(distrusts_before);
        match standing {
            VersionCertainty::Settled => Self {
                etag: ETag::strong(&version, coding),
                modified_s: attributes.modified_s(now),
                is_date_strong: attributes.is_mtime_of_change(),
            },
            _ => Self { etag: ETag::unsettled(&version, coding), modified_s: None, is_date_strong: false },
        }
    }

    /// Makes the validators of a version for a client that wants to change it.
    ///
    /// Its tag is strong even if it is so young that a later version might have its name: before that time is over only
    /// the answer to its upload tells this tag, and uploads are stamped each with a time of its own.
    pub fn of_upload(attributes: &Attributes, distrusts_before: u32, now: SystemTime) -> Self {
        let etag = ETag::strong(&attributes.version(distrusts_before), None);
        let is_date_strong = attributes.is_mtime_of_change();
        Self { etag, modified_s: attributes.modified_s(now), is_date_strong }
    }

    fn is_modified_since(&self, since_s: i64) -> Option<bool> {
        self.modified_s.map(|modified_s| modified_s > since_s)
    }
}

/// Result of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The conditions hold, or there are none.
    Proceed,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: the file is not the version the client means.
    Failed,
}

/// Judges If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since.
pub fn evaluate(method: Method, fields: &Fields<'_>, current: &Validators) -> Verdict {
    // Nearly every request has none of the four.
    if fields.if_match.is_none()
        && fields.if_unmodified_since.is_none()
        && fields.if_none_match.is_none()
        && fields.if_modified_since.is_none()
    {
        return Verdict::Proceed;
    }
    if let Some(list) = &fields.if_match {
        if !names(list, |tag| current.etag.matches_strongly(tag)) {
            return Verdict::Failed;
        }
    } else if let Some(since_s) = fields.if_unmodified_since.and_then(date::parse)
        && current.is_modified_since(since_s) == Some(true)
    {
        return Verdict::Failed;
    }
    let reads = matches!(method, Method::Get | Method::Head);
    if let Some(list) = &fields.if_none_match {
        if names(list, |tag| current.etag.matches_weakly(tag)) {
            return if reads { Verdict::NotModified } else { Verdict::Failed };
        }
    } else if let Some(since_s) = fields.if_modified_since.and_then(date::parse)
        && reads
        && current.is_modified_since(since_s) == Some(false)
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Returns whether a change may be made of what has these validators, or of nothing: If-Match compares
/// strongly and `*` needs something to be there (RFC 9110 13.1.1), If-None-Match: `*` wants nothing there
/// (13.1.2). To be judged where no other request can change it any more.
pub fn allows_change(fields: &Fields<'_>, current: Option<&Validators>) -> bool {
    if let Some(list) = &fields.if_match {
        if !current.is_some_and(|current| names(list, |tag| current.etag.matches_strongly(tag))) {
            return false;
        }
    } else if let (Some(since_s), Some(current)) = (fields.if_unmodified_since.and_then(date::parse), current)
        && current.is_modified_since(since_s) == Some(true)
    {
        return false;
    }
    match (&fields.if_none_match, current) {
        (Some(list), Some(current)) => !names(list, |tag| current.etag.matches_weakly(tag)),
        _ => true,
    }
}

/// Returns whether Range is to be obeyed, given If-Range (RFC 9110 13.1.5): no If-Range, our strong tag, or
/// our exact date when that date is itself a strong validator (of when the content changed, and older than this second, 8.8.2.2).
pub fn range_applies(if_range: Option<&[u8]>, current: &Validators, now_s: i64) -> bool {
    match if_range {
        None => true,
        Some(tag) if tag.starts_with(b"\"") || tag.starts_with(b"W/") => current.etag.matches_strongly(tag),
        Some(text) => current
            .modified_s
            .filter(|_| current.is_date_strong)
            .is_some_and(|modified_s| date::parse(text) == Some(modified_s) && modified_s < now_s),
    }
}

/// Returns whether a list of entity tags is `*` or holds one that `matches`. What is malformed matches
/// nothing.
fn names(list: &[u8], matches: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while !rest.is_empty() {
        let Some((tag, after)) = take_tag(rest) else { return false };
        if matches(tag) {
            return true;
        }
        rest = after.trim_ascii_start();
        match rest {
            [b',', tail @ ..] => rest = skip_commas(tail),
            [] => break,
            _ => return false,
        }
    }
    false
}

/// Takes `[W/] DQUOTE *etagc DQUOTE`. A comma may stand inside the quotes, so splitting would be wrong.
fn take_tag(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let opening = if text.starts_with(b"W/") { 2 } else { 0 };
    if text.get(opening) != Some(&b'"') {
        return None;
    }
    let inside = &text[opening + 1..];
    let closing = inside.iter().position(|byte| *byte == b'"')?;
    Some(text.split_at(opening + closing + 2))
}

fn skip_commas(mut text: &[u8]) -> &[u8] {
    while let [b',' | b' ' | b'\t', tail @ ..] = text {
        text = tail;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etag::tests::version;

    const MODIFIED_S: i64 = 784_111_777;
    const EQUAL: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";

    fn current() -> Validators {
        let etag = ETag::strong(&version(3, 4), None);
        Validators { etag, modified_s: Some(MODIFIED_S), is_date_strong: true }
    }

    fn get(fields: Fields<'_>) -> Verdict {
        evaluate(Method::Get, &fields, &current())
    }

    fn if_match(list: &[u8]) -> Verdict {
        get(Fields { if_match: Some(list.into()), ..Fields::default() })
    }

    fn if_none_match(list: &[u8]) -> Verdict {
        get(Fields { if_none_match: Some(list.into()), ..Fields::default() })
    }

    #[test]
    fn if_match_needs_our_strong_tag_or_a_star() {
        let etag = current().etag;
        assert_eq!(if_match(b"*"), Verdict::Proceed);
        assert_eq!(if_match(etag.as_bytes()), Verdict::Proceed);
        assert_eq!(if_match(&[b"\"a,b\" ,, ", etag.as_bytes()].concat()), Verdict::Proceed);
        assert_eq!(if_match(&[b"W/", etag.as_bytes()].concat()), Verdict::Failed);
        assert_eq!(if_match(b"\"x\""), Verdict::Failed);
        assert_eq!(if_match(b""), Verdict::Failed);
    }

    #[test]
    fn if_none_match_compares_weakly_and_gives_304_to_readers() {
        let etag = current().etag;
        let weak = [b"\"z\", W/", etag.as_bytes()].concat();
        assert_eq!(if_none_match(&weak), Verdict::NotModified);
        assert_eq!(if_none_match(b"*"), Verdict::NotModified);
        assert_eq!(if_none_match(b"\"z\""), Verdict::Proceed);
        let fields = Fields { if_none_match: Some(b"*".into()), ..Fields::default() };
        assert_eq!(evaluate(Method::Options, &fields, &current()), Verdict::Failed);
    }

    #[test]
    fn malformed_tag_lists_match_nothing() {
        let etag = current().etag;
        for list in [
            &etag.as_bytes()[1..],
            &etag.as_bytes()[..17],
            &[b"x ", etag.as_bytes()].concat(),
            &[b"\"a\" ", etag.as_bytes()].concat(),
            b"\"",
            b"W/",
        ] {
            assert_eq!(if_none_match(list), Verdict::Proceed, "{}", list.escape_ascii());
        }
    }

    #[test]
    fn dates_count_only_without_their_tag_field() {
        let since = |text| get(Fields { if_modified_since: Some(text), ..Fields::default() });
        assert_eq!(since(BEFORE), Verdict::Proceed);
        assert_eq!(since(EQUAL), Verdict::NotModified);
        assert_eq!(since(AFTER), Verdict::NotModified);
        assert_eq!(since(b"junk"), Verdict::Proceed);
        let unless = |text| get(Fields { if_unmodified_since: Some(text), ..Fields::default() });
        assert_eq!(unless(BEFORE), Verdict::Failed);
        assert_eq!(unless(EQUAL), Verdict::Proceed);
        assert_eq!(unless(b"junk"), Verdict::Proceed);
        let both = Fields {
            if_none_match: Some(b"\"z\"".into()),
            if_modified_since: Some(AFTER),
            ..Fields::default()
        };
        assert_eq!(get(both), Verdict::Proceed);
        let both =
            Fields { if_match: Some(b"*".into()), if_unmodified_since: Some(BEFORE), ..Fields::default() };
        assert_eq!(get(both), Verdict::Proceed);
    }

    #[test]
    fn failed_if_match_outranks_a_current_copy() {
        let fields =
            Fields { if_match: Some(b"\"x\"".into()), if_none_match: Some(b"*".into()), ..Fields::default() };
        assert_eq!(get(fields), Verdict::Failed);
    }

    #[test]
    fn changes_are_made_of_the_version_that_the_client_means_or_of_nothing() {
        let current = current();
        let tag = current.etag.as_bytes();
        let weak = [b"W/", tag].concat();
        let fields = |if_match: Option<&'static [u8]>, if_none_match: Option<&'static [u8]>| Fields {
            if_match: if_match.map(Into::into),
            if_none_match: if_none_match.map(Into::into),
            ..Fields::default()
        };
        let none = fields(None, None);
        assert!(allows_change(&none, Some(&current)) && allows_change(&none, None));
        // One creates, the other replaces.
        let (create, replace) = (fields(None, Some(b"*")), fields(Some(b"*"), None));
        assert!(!allows_change(&create, Some(&current)) && allows_change(&create, None));
        assert!(allows_change(&replace, Some(&current)) && !allows_change(&replace, None));
        let with = |list: &[u8]| {
            let fields = Fields { if_match: Some(list.to_vec().into()), ..Fields::default() };
            (allows_change(&fields, Some(&current)), allows_change(&fields, None))
        };
        assert_eq!(with(tag), (true, false));
        assert_eq!(with(&weak), (false, false), "a weak tag never matches strongly");
        assert_eq!(with(b"\"x\""), (false, false));
        let unless = |since| {
            let fields = Fields { if_unmodified_since: Some(since), ..Fields::default() };
            allows_change(&fields, Some(&current))
        };
        assert!(!unless(BEFORE) && unless(EQUAL) && unless(b"junk"));
        let etag = ETag::unsettled(&version(3, 4), None);
        let unsettled = Validators { etag, modified_s: None, is_date_strong: false };
        let fields = Fields { if_match: Some(unsettled.etag.as_bytes().into()), ..Fields::default() };
        assert!(!allows_change(&fields, Some(&unsettled)), "what may still change is no version");
    }

    #[test]
    fn if_range_takes_a_strong_tag_or_the_exact_settled_date() {
        let (now_s, current) = (MODIFIED_S + 10, current());
        let weak = [b"W/", current.etag.as_bytes()].concat();
        assert!(range_applies(None, &current, now_s));
        assert!(range_applies(Some(current.etag.as_bytes()), &current, now_s));
        assert!(!range_applies(Some(&weak), &current, now_s));
        assert!(range_applies(Some(EQUAL), &current, now_s));
        assert!(!range_applies(Some(AFTER), &current, now_s));
        assert!(!range_applies(Some(b"junk"), &current, now_s));
        assert!(!range_applies(Some(EQUAL), &current, MODIFIED_S), "changed within this very second");
        let set = Validators { is_date_strong: false, ..current };
        assert!(!range_applies(Some(EQUAL), &set, now_s), "other content may have been given the same date");
        assert!(range_applies(Some(current.etag.as_bytes()), &set, now_s));
    }

    #[test]
    fn what_has_no_date_meets_no_condition_by_date() {
        let undated = Validators { modified_s: None, ..current() };
        for date in [&b"Thu, 01 Jan 1970 00:00:00 GMT"[..], BEFORE, AFTER, b"Fri, 31 Dec 9999 23:59:59 GMT"] {
            let since = Fields { if_modified_since: Some(date), ..Fields::default() };
            let unless = Fields { if_unmodified_since: Some(date), ..Fields::default() };
            assert_eq!(evaluate(Method::Get, &since, &undated), Verdict::Proceed);
            // RFC 9110 13.1.4: ignored where there is no date.
            assert_eq!(evaluate(Method::Get, &unless, &undated), Verdict::Proceed);
            assert!(allows_change(&unless, Some(&undated)));
            assert!(!range_applies(Some(date), &undated, i64::MAX));
        }
    }
}
