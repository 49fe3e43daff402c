//! Lines in the form of OpenAFS's audit log (`osi_auditU`): words before values, a blank behind each.

use std::io::Write;

use super::audit::Act;
use super::text::{put_audit_word, put_escaped_word};
use crate::datetime::{MONTHS, Moment, WEEKDAYS};

/// Appends `Sun Nov  6 08:49:37 1994 EVENT AFS_SRX_FchData CODE 0 NAME --UnAuth-- HOST 192.0.2.1 ID 32766 `. Times are UTC.
pub fn put_head(event: &str, act: &Act<'_>, out: &mut Vec<u8>) {
    let at = Moment { unix_us: act.unix_us }.date_time();
    let _ = write!(
        out,
        "{} {} {:2} {:02}:{:02}:{:02} {} EVENT {} CODE {} NAME ",
        WEEKDAYS[at.weekday as usize].escape_ascii(),
        MONTHS[at.month as usize - 1].escape_ascii(),
        at.day,
        at.hour,
        at.minute,
        at.second,
        at.year,
        event,
        // As a signed number of 32 bits, whatever the protocol takes it for.
        act.code as i32
    );
    put_escaped_word(if act.user.is_empty() { b"--UnAuth--" } else { act.user }, out);
    let _ = write!(out, " HOST {} ID {} ", act.peer.ip(), act.user_id);
}

/// Appends a value behind its word: `STR a\x20b `. Blanks and invisible bytes become `\xHH`, so that the
/// value stays one word, cut where that is very long.
pub fn put_value(word: &str, value: &[u8], out: &mut Vec<u8>) {
    let _ = write!(out, "{word} ");
    put_audit_word(value, out);
    out.push(b' ');
}
