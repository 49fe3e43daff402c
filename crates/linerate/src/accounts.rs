//! Common parts of `linerate user`, `group` and `acl`: where the accounts are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use identity::{Accounts, AccountsStore};

/// Where the accounts file is.
#[derive(Debug, clap::Args)]
pub(crate) struct Where {
    /// The accounts file; without it, that of the server run as you
    ///
    /// For root /etc/linerate/accounts.toml, for others linerate/accounts.toml in $XDG_CONFIG_HOME or ~/.config.
    #[arg(long, value_name = "FILE", env = "LINERATE_ACCOUNTS")]
    accounts: Option<PathBuf>,
}

impl Where {
    pub(crate) fn store(&self) -> anyhow::Result<AccountsStore> {
        let path = self.accounts.clone().or_else(server::config::default_accounts);
        path.map(AccountsStore::new).ok_or_else(|| {
            anyhow::anyhow!("nothing says where the accounts are: there is no HOME; give --accounts FILE")
        })
    }
}

/// Parses the number of a POSIX user or group on the command line.
pub(crate) fn parse_posix_id(text: &str) -> Result<u32, String> {
    let number = text.parse().map_err(|_| "give a number from 1 to 4294967294")?;
    identity::check_posix_id(number)?;
    Ok(number)
}

/// Reads the accounts; where there are none yet, the error says what to do.
pub(crate) fn read(store: &AccountsStore) -> anyhow::Result<Arc<Accounts>> {
    if !store.exists() {
        bail!("there are no accounts at {}: linerate user add NAME makes the first", store.path().display());
    }
    Ok(store.read()?)
}

/// Returns what to do so that a running server learns of a change.
pub(crate) fn reload_hint(path: &Path) -> String {
    format!("{}: a running server reads it again when it gets a SIGHUP", path.display())
}
