//! `[identity]`: the server's users.

use std::path::PathBuf;
use std::sync::Arc;

use ::identity::{Accounts, AccountsError, AccountsStore};
use serde::Deserialize;

/// `[identity]`
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct IdentitySection {
    /// The accounts file; absent: [`default_accounts`], if there is a file.
    pub accounts: Option<PathBuf>,
}

impl IdentitySection {
    /// The accounts as the file has them now.
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

/// Returns where the accounts of a server are that runs as this user: for root `/etc/linerate/accounts.toml`,
/// for others `linerate/accounts.toml` in `$XDG_CONFIG_HOME` or `~/.config`. `None`: nothing says where.
pub fn default_accounts() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/etc"));
    let base = absolute("XDG_CONFIG_HOME")
        .or_else(root)
        .or_else(|| absolute("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("linerate/accounts.toml"))
}
