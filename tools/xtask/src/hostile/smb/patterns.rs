//! Listings by patterns that cost much to compare.

use smb_wire::body::query_directory::{QueryDirectoryRequest, QueryDirectoryRequestFixed};
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};
use smb_wire::fixed::Fixed;
use smb_wire::{Command, FileId, Message, Status};

use super::ATTACKER;
use super::raw::{How, Raw};
use crate::hostile::arena::ATTACKER as ADDRESS;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Patterns;

impl Scenario for Patterns {
    fn name(&self) -> &'static str {
        "smb-patterns"
    }

    fn about(&self) -> &'static str {
        "listings of 10,000 names by patterns of many wildcards, 255 and 16,000 characters long"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let long = pattern(16_000);
        let mut client = Client::arrive()?;
        let refused = client.list(&long)?;
        let [mut asked, mut failed] = [0, 0];
        while !field.is_over() {
            for pattern in [pattern(255), "*?*a".repeat(60), "<\">*".repeat(60)] {
                // A client that is cut off comes again.
                match client.list(&pattern) {
                    Ok(_) => asked += 1,
                    Err(_) => {
                        failed += 1;
                        client = Client::arrive()?;
                    }
                }
            }
        }
        Ok(Findings::default()
            .with("listings", asked)
            .with("not answered in time", failed)
            .expect(refused == Status::OBJECT_NAME_INVALID, || {
                format!("a pattern longer than a name: {refused}")
            })
            .expect(asked > 0, || "no listing was answered".to_owned()))
    }
}

struct Client {
    raw: Raw,
    directory: FileId,
}

impl Client {
    fn arrive() -> anyhow::Result<Self> {
        let mut raw = Raw::arrive(connect_from(ADDRESS, SMB)?, ATTACKER, true)?;
        let all = share::READ | share::WRITE | share::DELETE;
        let how = How { access: rights::READ_DATA, share: all, disposition: Disposition::Open };
        let directory = raw.create("many", how)?.map_err(|status| anyhow::anyhow!("{status}"))?;
        Ok(Self { raw, directory })
    }

    /// Returns what a listing from the first name on comes to.
    fn list(&mut self, pattern: &str) -> anyhow::Result<Status> {
        let fixed = QueryDirectoryRequestFixed {
            file_information_class: NAMES,
            flags: smb_wire::body::query_directory::flags::REOPEN,
            file_id: self.directory,
            output_buffer_length: (64 << 10).into(),
            ..QueryDirectoryRequestFixed::blank()
        };
        let reply = self
            .raw
            .ask(Command::QueryDirectory, 1, |body| QueryDirectoryRequest::write(body, fixed, pattern))?;
        Ok(Message::new(&reply)?.header().status())
    }
}

/// Makes so many wildcards that fit anything, and a letter that no name ends with.
fn pattern(length: usize) -> String {
    format!("{}z", "*".repeat(length - 1))
}

/// FileNamesInformation.
const NAMES: u8 = 12;
