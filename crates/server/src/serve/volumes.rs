//! Volumes with directories that are gone or replaced: reported, and opened again on the lanes once there is
//! a directory.

use std::path::Path;

use super::Serving;
use crate::health::utc;
use crate::logs;
use crate::roots::{RootObservation, RootState};

impl Serving {
    /// Acts on an observation of a volume's path.
    pub(super) fn on_root_observed(&mut self, observation: RootObservation) {
        let RootObservation { name, path, root_state } = observation;
        match root_state {
            RootState::Well => {
                self.hindered.remove(&name);
                self.root_is_back(&name, &path);
            }
            RootState::NotWritable(why) => {
                self.root_is_back(&name, &path);
                self.hindered.insert(name, why);
            }
            RootState::Hangs(since) => {
                //@ level: ERROR
                //@ subject: volume {name}:
                //@ cause: The disk or the network file system that the volume is on has not answered for seconds.
                //@ remedy: Look at the disk, or at the server that the file system comes from. The volume is served again without a
                //@ restart.
                let trouble = format!(
                    "its file system has not answered since {} ({}); who uses this volume waits, other volumes are served; look at the \
                     disk, or at the server that it is on [volume-hangs]",
                    utc(since),
                    path.display()
                );
                if self.note_root(&name, trouble) {
                    self.reload_counters.volumes_hung.increment();
                }
            }
            RootState::Gone(why) => {
                //@ level: ERROR
                //@ subject: volume {name}:
                //@ cause: The volume's directory is gone from its path, as after an unmount or a rename, or the server may no longer reach
                //@ it.
                //@ remedy: Mount or restore the directory. The volume is served again without a restart once it is back.
                let trouble = format!(
                    "its directory {} cannot be reached: {why}; files that were opened before are served on, others are not found; all \
                     is served again once the directory is back [volume-gone]",
                    path.display()
                );
                self.hindered.remove(&name);
                if self.note_root(&name, trouble) {
                    self.reload_counters.volumes_lost.increment();
                }
            }
            // With a reload under way the next look tells whether it is still so.
            RootState::Replaced if self.reloading.is_some() => {}
            RootState::Replaced => {
                self.hindered.remove(&name);
                if let Err(problem) = self.reopen(&name) {
                    self.note_root(&name, not_reopened(&problem));
                }
            }
        }
    }

    fn root_is_back(&mut self, name: &str, path: &Path) {
        if self.root_troubles.remove(name).is_some() {
            self.subject.health.clear(&subject(name));
            tracing::info!(volume = name, path = %path.display(), "the volume's directory is back");
        }
    }

    /// Notes that every lane serves the directory that the volume's path leads to now.
    pub(super) fn reopened(&mut self, name: &str) {
        self.root_troubles.remove(name);
        self.subject.health.clear(&subject(name));
        self.reload_counters.volumes_reopened.increment();
        //@ cause: A mount came or went, or the directory was renamed or its symbolic link switched, so that another directory is at the
        //@ volume's path.
        //@ remedy: None is needed where that was meant. Otherwise mount the right directory: the server follows by itself.
        tracing::warn!(
            volume = name,
            "volume {name}: another directory is at its path, and is served from now on; if that is not meant, look at its mount \
             [volume-moved]"
        );
    }

    /// Clears the troubles of all roots, as everything was opened again.
    pub(super) fn forget_root_troubles(&mut self) {
        for name in std::mem::take(&mut self.root_troubles).into_keys() {
            self.subject.health.clear(&subject(&name));
        }
    }

    /// Shows a trouble in `/health` and logs it once. Returns whether it is new.
    pub(super) fn note_root(&mut self, name: &str, trouble: String) -> bool {
        if self.root_troubles.get(name) == Some(&trouble) {
            return false;
        }
        self.subject.health.note(&subject(name), trouble.as_str());
        logs::error(name, format_args!("volume {name}: {trouble}"));
        self.root_troubles.insert(name.to_owned(), trouble);
        true
    }
}

/// Words the error of another directory at a volume's path that cannot be served.
pub(super) fn not_reopened(problem: &str) -> String {
    //@ level: ERROR
    //@ subject: volume {name}:
    //@ cause: Another directory is at the volume's path, and it cannot be served. The line says why.
    //@ remedy: Mount the right directory, or mend what the line names. The server looks again by itself.
    format!(
        "another directory is at its path, which cannot be served: {problem}; what was served before still is [volume-not-reopened]"
    )
}

fn subject(volume: &str) -> String {
    format!("volume {volume}")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::config::{Config, Document};
    use crate::serve::{Server, Serving};

    fn config(dirs: &[&Path]) -> Config {
        let volume = |(index, dir): (usize, &&Path)| {
            format!("[[volume]]\nname = 'v{index}'\npath = '{}'\nmount = '/{index}'\n", dir.display())
        };
        let text: String = dirs.iter().enumerate().map(volume).collect();
        let document = Document::of_text(Path::new("/linerate.toml"), text);
        let any = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let web = http::Http::listening(Some(any), Some(Vec::new()));
        let mut config = Config::read(&document, &[Arc::new(web)]).unwrap();
        (config.admin.listen, config.server.lanes) = (None, Some(2));
        config
    }

    fn get(address: SocketAddr, target: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Runs the control thread's work until `done` says so.
    fn drive(server: &mut Server, what: &str, done: impl Fn(&Serving) -> bool) {
        let serving = &mut server.serving;
        server.housekeeping.block_on(async {
            let goes_on = async {
                while !done(serving) {
                    tokio::select! {
                        event = serving.events.recv() => serving.on_event(event.unwrap()).unwrap(),
                        observation = serving.roots.next() => serving.on_root_observed(observation),
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(60), goes_on).await.expect(what);
        });
    }

    #[test]
    fn a_volume_that_is_removed_replaced_and_late_is_told_and_healed_without_a_signal() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        for (path, text) in [(&first, "old"), (&second, "other")] {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("a.txt"), text).unwrap();
        }
        let mut server = Server::start(config(&[&first, &second])).unwrap();
        let address = server.addresses().services[0].1.address;
        assert!(get(address, "/0/a.txt").ends_with("old"));

        // Moved away and back: told, and well again without anything done.
        let aside = dir.path().join("aside");
        std::fs::rename(&first, &aside).unwrap();
        drive(&mut server, "the loss is told", |serving| !serving.root_troubles.is_empty());
        let health = server.serving.subject.health.lines();
        assert!(health.starts_with("volume v0: ") && health.contains("first cannot be reached"), "{health}");
        assert_eq!(server.serving.reload_counters.volumes_lost.get(), 1);
        std::fs::rename(&aside, &first).unwrap();
        drive(&mut server, "the return is told", |serving| serving.root_troubles.is_empty());
        assert_eq!(server.serving.subject.health.lines(), "");
        assert_eq!(server.serving.reload_counters.volumes_reopened.get(), 0);

        // The other one gone for good, this one replaced: it is healed all the same, on both lanes.
        std::fs::remove_dir_all(&second).unwrap();
        std::fs::rename(&first, &aside).unwrap();
        std::fs::create_dir(&first).unwrap();
        std::fs::write(first.join("a.txt"), "new").unwrap();
        let counters = Arc::clone(&server.serving.reload_counters);
        drive(&mut server, "the new directory is opened", |_| counters.volumes_reopened.get() == 1);
        for _ in 0..16 {
            assert!(get(address, "/0/a.txt").ends_with("new"), "either lane serves what is there now");
        }
        drive(&mut server, "the other loss is told", |serving| serving.root_troubles.contains_key("v1"));
        assert!(get(address, "/1/a.txt").starts_with("HTTP/1.1 404 "));

        std::fs::create_dir(&second).unwrap();
        std::fs::write(second.join("a.txt"), "late").unwrap();
        drive(&mut server, "the late directory is opened", |_| counters.volumes_reopened.get() == 2);
        for _ in 0..16 {
            assert!(get(address, "/1/a.txt").ends_with("late"));
        }
        assert_eq!(server.serving.subject.health.lines(), "");
        assert_eq!((counters.taken.get(), counters.refused.get()), (0, 0), "no reload was asked for");
    }
}
