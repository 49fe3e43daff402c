//! Bodies of error answers: a small page for browsers, one plain line for everything else.

use httptypes::StatusCode;

use crate::request_error::RequestError;

/// Media type of [`html`] bodies.
pub const HTML: &str = "text/html; charset=utf-8";
/// Media type of [`text`] bodies.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// Content-Security-Policy of documents that users have written.
pub const SANDBOX: &str = "sandbox";
/// Content-Security-Policy of pages without scripts.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Returns whether the client would rather have HTML than plain text (RFC 9110 12.5.1): it names `text/html`.
/// Command-line tools send `*/*` or nothing, and get text.
pub fn wants_html(accept: Option<&[u8]>) -> bool {
    names_type(accept, b"text/html") || names_type(accept, b"application/xhtml+xml")
}

/// Returns whether the client asks for JSON and not for HTML.
pub fn wants_json(accept: Option<&[u8]>) -> bool {
    names_type(accept, b"application/json") && !wants_html(accept)
}

/// Writes a page that says what happened and what to do.
pub fn html(refusal: RequestError, out: &mut Vec<u8>) {
    let status = refusal.status();
    let reason = reason(status);
    let text = refusal.to_string();
    let advice = advice(refusal);
    out.extend_from_slice(
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8><title>{code} {reason}</title>\
             <meta name=viewport content=\"width=device-width\"><meta name=color-scheme content=\"light dark\">\
             <style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:18vh auto 0;padding:0 1.5rem}}\
             p.code{{font-size:3.5rem;font-weight:700;line-height:1;margin:0;color:#0f766e}}\
             h1{{font-size:1.4rem;margin:.5rem 0 1rem}}\
             @media(prefers-color-scheme:dark){{p.code{{color:#5eead4}}a{{color:#7dd3fc}}}}</style>\
             <main><p class=code>{code}</p><h1>{reason}</h1><p>{text}</p><p>{advice}</p></main></html>\n",
            code = status.as_u16(),
        )
        .as_bytes(),
    );
}

/// Writes one line that says what happened.
pub fn text(refusal: RequestError, out: &mut Vec<u8>) {
    let status = refusal.status();
    let line = format!("{} {}: {refusal}\n", status.as_u16(), reason(status));
    out.extend_from_slice(line.as_bytes());
}

fn advice(refusal: RequestError) -> &'static str {
    match refusal {
        RequestError::NotFound => {
            "Check the address, or look in <a href=\"./\">this directory</a> or at <a href=\"/\">the top</a>."
        }
        RequestError::Forbidden => "Whoever runs this server can change that.",
        RequestError::Overloaded | RequestError::HeaderTimeout => "Reload in a moment.",
        RequestError::Internal => {
            "Trying again may help; whoever runs this server finds the cause in its log."
        }
        RequestError::PreconditionFailed | RequestError::RangeNotSatisfiable => {
            "Fetch the file anew, from its start."
        }
        _ => "Start from <a href=\"/\">the top</a>.",
    }
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

fn names_type(accept: Option<&[u8]>, essence: &[u8]) -> bool {
    accept.unwrap_or_default().split(|byte| *byte == b',').any(|element| {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(essence));
        named && !parts.any(|parameter| matches!(parameter, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_html_and_tools_get_text() {
        let chromium = b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        assert!(wants_html(Some(chromium)));
        assert!(!wants_html(Some(b"*/*")));
        assert!(!wants_html(None));
        assert!(!wants_html(Some(b"text/html;q=0, */*")));
    }

    #[test]
    fn json_is_sent_to_who_asks_for_it_alone() {
        assert!(wants_json(Some(b"application/json")));
        assert!(wants_json(Some(b"application/json; charset=utf-8, */*;q=0.5")));
        assert!(!wants_json(Some(b"text/html, application/json")));
        assert!(!wants_json(Some(b"*/*")));
    }

    #[test]
    fn every_refusal_has_a_whole_page_and_a_line() {
        for refusal in RequestError::ALL {
            let (mut page, mut line) = (Vec::new(), Vec::new());
            html(refusal, &mut page);
            text(refusal, &mut line);
            let page = String::from_utf8(page).unwrap();
            assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
            assert!(page.contains(&refusal.to_string()), "{page}");
            let line = String::from_utf8(line).unwrap();
            assert_eq!(line.matches('\n').count(), 1);
            assert!(line.starts_with(refusal.status().as_str()), "{line}");
        }
    }
}
