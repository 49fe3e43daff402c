//! Operations of HTTP clients.

use anyhow::{bail, ensure};

use crate::operation::{Condition, Operation, Step};
use crate::run::{Answer, Run, bytes};

impl Run {
    pub(crate) async fn by_http(&mut self, step: &Step) -> anyhow::Result<Answer> {
        let response = match step.operation {
            Operation::Put { path, condition, len } => {
                let mut is_another = false;
                let fields = match condition {
                    Condition::Anything => String::new(),
                    Condition::Nothing => "If-None-Match: *\r\n".to_owned(),
                    Condition::AsRead => match self.http.kept(path) {
                        Some((tag, content)) => {
                            is_another = self.model.at(path).is_none_or(|node| node.content != *content);
                            format!("If-Match: {tag}\r\n")
                        }
                        None => "If-Match: \"none\"\r\n".to_owned(),
                    },
                };
                let content = bytes(step.index, len);
                let response = self.http.ask("PUT", &path.text(), &fields, &content).await?;
                if (200..300).contains(&response.status) {
                    ensure!(!is_another, "If-Match let a content go that the client had not read");
                    if let Some(tag) = &response.tag {
                        self.http.is_tagged(path, tag, &content)?;
                    }
                    self.model.makes(path, false, content);
                }
                response
            }
            Operation::Delete { path } => {
                let response = self.http.ask("DELETE", &path.text(), "", &[]).await?;
                if (200..300).contains(&response.status) {
                    ensure!(self.model.names.contains_key(&path), "what is not there is removed");
                    self.model.removes(path);
                }
                response
            }
            operation => bail!("{operation} is no operation of HTTP"),
        };
        match response.status {
            200..300 => Ok(Answer::Done),
            400..500 => Ok(Answer::Refused(format!("HTTP answers {}", response.status))),
            status => bail!("HTTP answers {status}"),
        }
    }
}
