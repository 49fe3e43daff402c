//! Key tables: where the keys of services lie. Files of MIT (`krb5.keytab`) and of OpenAFS (`KeyFileExt`).

mod entry;
mod keys;
mod mit;
mod openafs;

pub use entry::{KeyEntry, KeyFileError, KeyFileProblem, KeyUse};
pub use keys::{Keys, Opened, UnopenedTicket};
pub use mit::{parse_keytab, write_keytab};
pub use openafs::{parse_key_file_ext, write_key_file_ext};

#[cfg(test)]
mod tests;
