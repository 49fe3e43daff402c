//! Accepts tokens of stock clients, for checks by hand: `accept KEYTAB [SECONDS]`, where SECONDS are added to the time of day.
//!
//! Each line of standard input is a command with arguments in hexadecimal: `token TOKEN`, `bound TOKEN APPLICATION-DATA`,
//! `verify MESSAGE MIC`, `sign MESSAGE`. Each answer is a line: `accepted CLIENT KEY REPLY`,
//! `refused CODE REPLY TEXT`, `mic MIC`, `ok`, `error TEXT`.

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use krb::keytab::parse_keytab;
use krb::{Accepted, Acceptor, BindingCheck, ChannelBindings, Keys, Policy, ReplayCache, Request, Time};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: accept KEYTAB [SECONDS]")?;
    let ahead: i64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let keys = Keys::new(parse_keytab(&file, &std::fs::read(&file)?)?);
    let (acceptor, replays) = (Acceptor::new(Policy::default()), ReplayCache::new(1_024));
    let mut accepted = None;
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let now = Time { seconds: now.as_secs() as i64 + ahead, microseconds: now.subsec_micros() };
        let answer = match words[..] {
            ["token", token] => {
                accept(&acceptor, &keys, &replays, token, BindingCheck::Ignored, now, &mut accepted)
            }
            ["bound", token, data] => {
                let bindings = ChannelBindings::of_application_data(&from_hex(data));
                let check = BindingCheck::Required(bindings);
                accept(&acceptor, &keys, &replays, token, check, now, &mut accepted)
            }
            ["verify", message, mic] => {
                let accepted = accepted.as_mut().ok_or("no context")?;
                match accepted.messages.verify(&from_hex(message), &from_hex(mic)) {
                    Ok(()) => "ok".to_owned(),
                    Err(error) => format!("error {error}"),
                }
            }
            ["sign", message] => {
                let accepted = accepted.as_mut().ok_or("no context")?;
                format!("mic {}", hex(&accepted.messages.sign(&from_hex(message))))
            }
            _ => "error unknown command".to_owned(),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn accept(
    acceptor: &Acceptor,
    keys: &Keys,
    replays: &ReplayCache,
    token: &str,
    bindings: BindingCheck,
    now: Time,
    context: &mut Option<Accepted>,
) -> String {
    // A check by hand needs no secret here; a server takes 20 random bytes.
    let request = Request { token: &from_hex(token), now, random: &[7; 20], bindings };
    match acceptor.accept(&request, keys, replays) {
        Ok(accepted) => {
            let reply = hex(accepted.reply.as_deref().unwrap_or_default());
            let client = format!("{:?}", accepted.ticket.client).replace(' ', "");
            let key = hex(accepted.session_key.bytes());
            *context = Some(accepted);
            format!("accepted {client} {key} {reply}")
        }
        Err(refusal) => {
            let reply = hex(refusal.reply.as_deref().unwrap_or_default());
            format!("refused {} {reply}- {refusal}", refusal.reason.code().0)
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|char| char.to_digit(16).map(|digit| digit as u8)).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}
