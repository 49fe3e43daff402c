//! fuzz: no text and no bytes make the parsers panic, and what they take they mean.

use identity::{Accounts, Acl, Nearest, Side, Who, parse_smbpasswd};

#[test]
fn any_bytes_are_a_list_that_encodes_to_them_or_none() {
    bolero::check!().for_each(|input: &[u8]| {
        let Ok(acl) = Acl::decode(input) else {
            assert_eq!(Nearest::of(Some(input), &Nearest::None), Nearest::Unreadable);
            return;
        };
        assert_eq!(acl.encode(), input, "one list has one encoding");
        for side in [Side::Given, Side::Denied] {
            for entry in acl.entries(side) {
                assert_eq!(entry.who.to_string().parse::<Who>().as_ref(), Ok(&entry.who));
                assert_eq!(entry.rights.to_string().parse(), Ok(entry.rights));
            }
        }
    });
}

#[test]
fn any_text_is_accounts_of_which_everybody_can_be_found_or_is_refused() {
    bolero::check!().for_each(|input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let accounts = match Accounts::parse(text) {
            Ok(accounts) => accounts,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        };
        for user in accounts.users() {
            assert_eq!(accounts.name_of(user.id), Some(&*user.name));
            let principal = accounts.user(&user.name);
            assert_eq!(principal.is_err(), user.disabled);
            let Ok(principal) = principal else { continue };
            assert!(principal.is_member(user.id));
            // Each group once, itself and the two that every user is in.
            assert_eq!(principal.subdomain().len(), user.groups.len() + 3);
            for who in &user.principals {
                assert_eq!(accounts.user_of_realm(who).unwrap().id(), user.id);
            }
        }
        for group in accounts.groups() {
            assert_eq!(accounts.id_of(&group.name.parse().unwrap()), Some(group.id));
        }
    });
}

#[test]
fn any_text_is_samba_s_users_each_in_a_line_of_his_own_or_tells_which_lines_are_none() {
    bolero::check!().for_each(|input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let lines: Vec<usize> = match parse_smbpasswd(text) {
            Ok(users) => users.iter().map(|user| user.line).collect(),
            Err(bad) => bad.iter().map(|bad| bad.line).collect(),
        };
        assert!(
            lines.is_sorted_by(|one, next| one < next)
                && lines.last().is_none_or(|last| *last <= text.lines().count())
        );
    });
}
