//! Table `[identity]`: the server's users.

use std::path::PathBuf;
use std::sync::Arc;

use ::identity::{Accounts, AccountsError, AccountsStore};
use serde::Deserialize;

/// Table `[identity]`: the server's users.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct IdentitySection {
    /// Path of the accounts file; absent for [`default_accounts`], if that exists.
    pub accounts: Option<PathBuf>,
}

impl IdentitySection {
    /// Loads the accounts from the file.
    ///
    /// # Errors
    /// The file is not there though the configuration names it, or it is refused ([`AccountsStore::read`]).
    pub(crate) fn load(&self) -> Result<Arc<Accounts>, AccountsError> {
        let by_default = || default_accounts().map(AccountsStore::new).filter(AccountsStore::exists);
        match self.accounts.as_ref().map(AccountsStore::new).or_else(by_default) {
            Some(store) => store.read(),
            None => Ok(Accounts::none()),
        }
    }
}

/// Returns the default path of the accounts for the present user: for root `/etc/linerate/accounts.toml`, for
/// others `linerate/accounts.toml` in `$XDG_CONFIG_HOME` or `~/.config`. `None` where no directory is known.
pub fn default_accounts() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/etc"));
    let base = absolute("XDG_CONFIG_HOME")
        .or_else(root)
        .or_else(|| absolute("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("linerate/accounts.toml"))
}
