//! Name by which a file is sought that another program may have moved.

/// Name of a file by which it is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhichName {
    /// Any that it has.
    Any,
    /// The one by which it was opened, whatever it is called by now; of a file of one name that one.
    Opened,
}
