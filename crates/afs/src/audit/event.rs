//! What calls are told of, and by which names.

/// Makes the enum with its names: the procedure's, and that of the event in OpenAFS's audit log.
macro_rules! events {
    ($($event:ident = $number:literal, $openafs:literal;)*) => {
        /// A call that is told of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "they are procedures of RXAFS")]
        pub enum Event {
            $($event = $number,)*
        }

        impl Event {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$event,)*];

            /// The procedure.
            pub fn procedure(self) -> &'static str {
                match self {
                    $(Self::$event => stringify!($event),)*
                }
            }

            /// As OpenAFS's file server calls it (its src/audit/audit.h).
            pub fn openafs(self) -> &'static str {
                match self {
                    $(Self::$event => $openafs,)*
                }
            }

            /// That of a packed record.
            pub(super) fn of_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$event),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    FetchData = 1, "AFS_SRX_FchData";
    FetchAcl = 2, "AFS_SRX_FchACL";
    FetchStatus = 3, "AFS_SRX_FchStat";
    BulkStatus = 4, "AFS_SRX_BFchSta";
    InlineBulkStatus = 5, "AFS_SRX_BIFchSt";
    StoreData = 6, "AFS_SRX_StData";
    StoreAcl = 7, "AFS_SRX_StACL";
    StoreStatus = 8, "AFS_SRX_StStat";
    CreateFile = 9, "AFS_SRX_CrFile";
    RemoveFile = 10, "AFS_SRX_RmFile";
    Rename = 11, "AFS_SRX_RNmFile";
    Symlink = 12, "AFS_SRX_SymLink";
    Link = 13, "AFS_SRX_Link";
    MakeDir = 14, "AFS_SRX_MakeDir";
    RemoveDir = 15, "AFS_SRX_RmDir";
    SetLock = 16, "AFS_SRX_SetLock";
    ExtendLock = 17, "AFS_SRX_ExtLock";
    ReleaseLock = 18, "AFS_SRX_RelLock";
    GetVolumeStatus = 19, "AFS_SRX_GetVolS";
    SetVolumeStatus = 20, "AFS_SRX_SetVolS";
    FlushCps = 21, "AFS_SRX_FlusCPS";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_events_and_names_tell_them_apart() {
        let mut names = Vec::new();
        for event in Event::ALL {
            assert_eq!(Event::of_number(*event as u8), Some(*event));
            names.push(event.openafs());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Event::ALL.len());
        assert_eq!(Event::of_number(0), None);
    }
}
