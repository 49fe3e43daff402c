//! Events of the audit log, and their names.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// A call that the audit log records. Named as its procedure of RXAFS, and in text as OpenAFS's file server calls it
/// (its src/audit/audit.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr, VariantArray)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are procedures of RXAFS")]
pub enum Event {
    #[strum(serialize = "AFS_SRX_FchData")]
    FetchData = 1,
    #[strum(serialize = "AFS_SRX_FchACL")]
    FetchAcl = 2,
    #[strum(serialize = "AFS_SRX_FchStat")]
    FetchStatus = 3,
    #[strum(serialize = "AFS_SRX_BFchSta")]
    BulkStatus = 4,
    #[strum(serialize = "AFS_SRX_BIFchSt")]
    InlineBulkStatus = 5,
    #[strum(serialize = "AFS_SRX_StData")]
    StoreData = 6,
    #[strum(serialize = "AFS_SRX_StACL")]
    StoreAcl = 7,
    #[strum(serialize = "AFS_SRX_StStat")]
    StoreStatus = 8,
    #[strum(serialize = "AFS_SRX_CrFile")]
    CreateFile = 9,
    #[strum(serialize = "AFS_SRX_RmFile")]
    RemoveFile = 10,
    #[strum(serialize = "AFS_SRX_RNmFile")]
    Rename = 11,
    #[strum(serialize = "AFS_SRX_SymLink")]
    Symlink = 12,
    #[strum(serialize = "AFS_SRX_Link")]
    Link = 13,
    #[strum(serialize = "AFS_SRX_MakeDir")]
    MakeDir = 14,
    #[strum(serialize = "AFS_SRX_RmDir")]
    RemoveDir = 15,
    #[strum(serialize = "AFS_SRX_SetLock")]
    SetLock = 16,
    #[strum(serialize = "AFS_SRX_ExtLock")]
    ExtendLock = 17,
    #[strum(serialize = "AFS_SRX_RelLock")]
    ReleaseLock = 18,
    #[strum(serialize = "AFS_SRX_GetVolS")]
    GetVolumeStatus = 19,
    #[strum(serialize = "AFS_SRX_SetVolS")]
    SetVolumeStatus = 20,
    #[strum(serialize = "AFS_SRX_FlusCPS")]
    FlushCps = 21,
}
