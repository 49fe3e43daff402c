//! Names: of a client as `rx` carries it, and as AFS's protection service knows it.

use krb::Client;
use krb::message::Principal;

/// Name of a client that has the cell's key. No principal reads so: each has a realm.
pub const LOCAL_AUTH: &str = "<LocalAuth>";

/// Returns the name of a client in [`rx::security::Principal`]: `alice@REALM`, `root/admin@REALM`, or [`LOCAL_AUTH`].
pub fn name_of(client: &Client) -> String {
    match client {
        Client::Principal(principal) => principal.to_string(),
        Client::LocalAuth => LOCAL_AUTH.to_owned(),
    }
}

/// Parses what [`name_of`] makes; `None` for anything else.
pub fn client_of(name: &str) -> Option<Client> {
    if name == LOCAL_AUTH {
        return Some(Client::LocalAuth);
    }
    name.parse().ok().map(Client::Principal)
}

/// Returns the name that AFS knows a principal by: `alice`, `root.admin`, `rcmd.h` for `host/h.x.org`, `alice@REALM` of
/// another realm.
///
/// Realms are compared byte by byte. `None` where there is no such name: more than two parts, or, unless they are allowed, a dot
/// in the first part, which would read as two.
pub fn afs_name(principal: &Principal, is_local: impl Fn(&str) -> bool, has_dots: bool) -> Option<String> {
    let name = match &principal.components[..] {
        [host, _] | [host] if !has_dots && host.contains('.') => return None,
        [host, name] if host == "host" => format!("rcmd.{}", name.split('.').next().unwrap_or(name)),
        [first, second] => format!("{first}.{second}"),
        [only] => only.clone(),
        _ => return None,
    };
    Some(if is_local(&principal.realm) { name } else { format!("{name}@{}", principal.realm) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(components: &[&str], realm: &str) -> Option<String> {
        afs_name(&Principal::new(components, realm), |realm| realm == "TEST.LOCAL", false)
    }

    #[test]
    fn principals_have_the_names_that_stock_servers_give_them() {
        for (components, expected) in [
            (&["alice"][..], "alice"),
            (&["root", "admin"], "root.admin"),
            (&["host", "fs1.test.local"], "rcmd.fs1"),
            (&["afs", "a.b"], "afs.a.b"),
        ] {
            assert_eq!(name(components, "TEST.LOCAL").as_deref(), Some(expected));
        }
    }

    #[test]
    fn trap_1_names_that_read_as_others_are_none() {
        for components in [&["root.admin"][..], &["a.b", "c"], &["a", "b", "c"], &[]] {
            assert_eq!(name(components, "TEST.LOCAL"), None, "{components:?}");
        }
        let dotted = Principal::new(&["root.admin"], "TEST.LOCAL");
        assert_eq!(afs_name(&dotted, |_| true, true).as_deref(), Some("root.admin"));
    }

    #[test]
    fn trap_2_a_foreign_realms_user_is_nobody_local() {
        for realm in ["EVIL.REALM", "test.local", "TEST.LOCAL.", "TEST.LOCA"] {
            assert_eq!(name(&["alice"], realm), Some(format!("alice@{realm}")));
        }
    }

    #[test]
    fn names_of_clients_are_read_as_they_are_written() {
        for client in [
            Client::LocalAuth,
            Client::Principal(Principal::new(&["alice"], "TEST.LOCAL")),
            Client::Principal(Principal::new(&["root", "admin"], "TEST.LOCAL")),
            Client::Principal(Principal::new(&["<LocalAuth>"], "TEST.LOCAL")),
            Client::Principal(Principal::new(&["afs"], "TEST.LOCAL")),
        ] {
            assert_eq!(client_of(&name_of(&client)), Some(client));
        }
        assert_eq!((client_of("alice"), client_of("")), (None, None));
    }
}
