//! Where commands have passwords from: a terminal, standard input or the environment, and never the command line, which others
//! can read.

use std::io::{IsTerminal, Read};

use anyhow::{Context, bail};
use identity::{NtHash, Secret};
use smb_auth::Credentials;

/// How a client of a server signs in.
#[derive(Clone, Debug, clap::Args)]
pub struct SignIn {
    /// Read the password from standard input, where it is the first line; without it the environment's LINERATE_PASSWORD counts, and
    /// else a terminal is asked
    #[arg(long)]
    password_stdin: bool,
}

impl SignIn {
    /// Who `user` is to an SMB server; without a name nobody in particular.
    pub fn credentials(&self, user: &str) -> anyhow::Result<Credentials> {
        let nt_hash = if user.is_empty() { [0; 16] } else { self.nt_hash(user)? };
        Ok(Credentials {
            domain: String::new(),
            user: user.to_owned(),
            nt_hash: nt_hash.into(),
            workstation: String::new(),
        })
    }

    fn nt_hash(&self, user: &str) -> anyhow::Result<[u8; 16]> {
        let password = match std::env::var(VARIABLE) {
            _ if self.password_stdin => first_line()?,
            Ok(password) => Secret::from(password),
            Err(_) => prompt(&format!("Password for {user}: "))?,
        };
        let hash = NtHash::new(&password).context("the password is no UTF-8")?;
        Ok(*hash.expose())
    }
}

/// The first line of standard input.
pub fn first_line() -> anyhow::Result<Secret> {
    let mut bytes = Vec::with_capacity(2 * Secret::LENGTH_MAX);
    let mut input = std::io::stdin().take(bytes.capacity() as u64);
    input.read_to_end(&mut bytes).context("cannot read the password from standard input")?;
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]).to_vec();
    // What was read goes with it.
    drop(Secret::from(bytes));
    Ok(line.into())
}

/// What is typed at the terminal.
pub fn prompt(text: &str) -> anyhow::Result<Secret> {
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to ask for the password: give --password-stdin and write it there");
    }
    rpassword::prompt_password(text).map(Secret::from).context("cannot ask")
}

const VARIABLE: &str = "LINERATE_PASSWORD";
