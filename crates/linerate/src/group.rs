//! `linerate group`: groups of users, for access lists.

use std::process::ExitCode;

use serde_json::json;

use crate::accounts::{Where, parse_posix_id, read, reload_hint};
use crate::output::{say, table};

/// Commands of `linerate group`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a group
    Add {
        /// Name of the group, such as staff or alice:friends
        name: String,
        /// POSIX group it is mapped to
        #[arg(long, value_parser = parse_posix_id)]
        gid: Option<u32>,
        #[command(flatten)]
        place: Where,
    },
    /// Take a group away; its number is never given again
    ///
    /// Its name stays on access lists, where it then gives nothing, and denies everybody what it denied.
    Del {
        /// Name of the group
        name: String,
        #[command(flatten)]
        place: Where,
    },
    /// Put users and groups into a group, such as system:administrators
    AddMember(Members),
    /// Take users and groups out of a group
    RemoveMember(Members),
    /// Show the groups
    List {
        /// JSON for scripts
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Where,
    },
}

#[derive(Debug, clap::Args)]
struct Members {
    /// Name of the group
    group: String,
    /// Users and groups
    #[arg(required = true)]
    members: Vec<String>,
    #[command(flatten)]
    place: Where,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Add { name, gid, place } => {
            let id = place.store()?.change(|edit| edit.add_group(name, *gid))?;
            done(place, &format!("{name} is group {id}"))?;
        }
        Command::Del { name, place } => {
            place.store()?.change(|edit| edit.remove_group(name))?;
            done(place, &format!("{name} is gone; access lists that name {name} stay as they are"))?;
        }
        Command::AddMember(Members { group, members, place }) => {
            place.store()?.change(|edit| {
                members.iter().try_for_each(|member| edit.add_member(group, member).map(drop))
            })?;
            done(place, &format!("in {group}: {}", members.join(" ")))?;
        }
        Command::RemoveMember(Members { group, members, place }) => {
            place
                .store()?
                .change(|edit| members.iter().try_for_each(|member| edit.remove_member(group, member)))?;
            done(place, &format!("not in {group} any more: {}", members.join(" ")))?;
        }
        Command::List { json, place } => list(*json, place)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool, place: &Where) -> anyhow::Result<()> {
    let groups = read(&place.store()?)?.groups();
    if json {
        let groups: Vec<_> = groups
            .iter()
            .map(|group| {
                json!({ "name": group.name, "id": group.id.0, "gid": group.gid, "members": group.members })
            })
            .collect();
        say!("{}", serde_json::to_string_pretty(&groups)?);
        return Ok(());
    }
    let mut table = table(["group", "id", "gid", "members"], &[1, 2]);
    for group in groups {
        let gid = group.gid.map(|gid| gid.to_string()).unwrap_or_default();
        table.add_row([group.name, group.id.to_string(), gid, group.members.join(" ")]);
    }
    say!("{table}");
    Ok(())
}

fn done(place: &Where, what: &str) -> anyhow::Result<()> {
    say!("{what}\n{}", reload_hint(place.store()?.path()));
    Ok(())
}
