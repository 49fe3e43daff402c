//! The directory of a volume that a share begins in, which may depend on the user and the time of the
//! connect.

use std::time::{SystemTime, UNIX_EPOCH};

use identity::Principal;
use service::datetime::DateTime;
use vfs::{Name, NameError, RelPathBuf};

/// A path in a volume, of names with variables in them (smb.conf(5), "VARIABLE SUBSTITUTIONS").
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    names: Vec<Vec<TemplatePart>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// `%U`: name of the user.
    User,
    /// `%t`: time of the connect, `20261126_022300`, in UTC.
    Time,
}

/// The reason why a template gives no directory for a user.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("who is no user has no directory of his own")]
    NoUser,
    #[error("a name cannot be that of a directory: {0}")]
    Name(#[from] NameError),
}

impl Template {
    /// # Errors
    /// What is wrong with it, for the administrator.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let names = text.split('/').map(parts).collect::<Result<Vec<_>, _>>()?;
        let template = Self { names };
        // What no user's name and no time could make right.
        match template.resolve(Some("user"), UNIX_EPOCH) {
            Ok(_) => Ok(template),
            Err(error) => {
                Err(format!("{text:?} is no path within a volume, such as \"%U\" or \"home/%U\": {error}"))
            }
        }
    }

    /// Returns whether it is not the same directory always.
    pub(crate) fn varies(&self) -> bool {
        self.names.iter().flatten().any(|part| !matches!(part, TemplatePart::Text(_)))
    }

    /// Returns the path for a user that connects now.
    pub(crate) fn of(&self, who: &Principal, now: SystemTime) -> Result<RelPathBuf, TemplateError> {
        self.resolve(who.is_user().then(|| who.name()), now)
    }

    fn resolve(&self, user: Option<&str>, now: SystemTime) -> Result<RelPathBuf, TemplateError> {
        let mut path = RelPathBuf::root();
        for parts in &self.names {
            let mut name = String::new();
            for part in parts {
                match part {
                    TemplatePart::Text(text) => name.push_str(text),
                    TemplatePart::User => name.push_str(user.ok_or(TemplateError::NoUser)?),
                    TemplatePart::Time => name.push_str(&time(now)),
                }
            }
            // One name is made of each, whatever the user is called.
            path.push(Name::parse(name.as_bytes())?)?;
        }
        Ok(path)
    }
}

fn parts(name: &str) -> Result<Vec<TemplatePart>, String> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        let part = match (c, (c == '%').then(|| rest.next()).flatten()) {
            ('%', Some('U')) => TemplatePart::User,
            ('%', Some('t')) => TemplatePart::Time,
            ('%', Some('%')) => {
                text.push('%');
                continue;
            }
            ('%', other) => {
                let other = other.map(String::from).unwrap_or_default();
                return Err(format!(
                    "%{other} is no variable: %U is the user, %t the time, %% a percent sign"
                ));
            }
            (c, _) => {
                text.push(c);
                continue;
            }
        };
        if !text.is_empty() {
            parts.push(TemplatePart::Text(std::mem::take(&mut text)));
        }
        parts.push(part);
    }
    if !text.is_empty() {
        parts.push(TemplatePart::Text(text));
    }
    Ok(parts)
}

fn time(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let DateTime { year, month, day, hour, minute, second, .. } = DateTime::from_unix(seconds.cast_signed());
    format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn resolved(template: &str, user: Option<&str>) -> Result<String, TemplateError> {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_659_780);
        Template::parse(template).unwrap().resolve(user, now).map(|path| path.as_path().to_string())
    }

    #[test]
    fn variables_stand_for_the_user_and_the_time() {
        for (template, path, varies) in [
            ("%U", "alice", true),
            ("home/%U/files", "home/alice/files", true),
            ("of-%U.%t", "of-alice.20261126_022300", true),
            ("100%%/a", "100%/a", false),
        ] {
            assert_eq!(resolved(template, Some("alice")).as_deref(), Ok(path), "{template}");
            assert_eq!(Template::parse(template).unwrap().varies(), varies, "{template}");
        }
    }

    #[test]
    fn no_user_leaves_the_directory_by_his_name() {
        for user in ["..", ".", "a/b", "../root", "", "a\0b", &"x".repeat(256)] {
            assert!(matches!(resolved("home/%U", Some(user)), Err(TemplateError::Name(_))), "{user:?}");
        }
        // With something beside it a dot is a dot.
        assert_eq!(resolved("of-%U", Some("..")).as_deref(), Ok("of-.."));
        assert_eq!(resolved("home/%U", None), Err(TemplateError::NoUser));
        assert_eq!(resolved("home", None).as_deref(), Ok("home"));
    }

    #[test]
    fn what_is_no_path_of_a_volume_is_refused() {
        for (template, why) in [
            ("", "no path"),
            ("/home/%U", "no path"),
            ("home//%U", "no path"),
            ("../%U", "no path"),
            ("home/%u", "%u is no variable"),
            ("home/100%", "% is no variable"),
        ] {
            let problem = Template::parse(template).unwrap_err();
            assert!(problem.contains(why), "{template:?}: {problem}");
        }
    }
}
