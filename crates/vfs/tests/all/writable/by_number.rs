//! Files named by number, as AFS's clients do.

use std::rc::Rc;
use std::time::Duration;

use identity::{Acl, Rights};
use lane::backend::sim::Config;
use lane::time;
use vfs::{CreateOptions, Error, Holder, Number, NumberedName, Replace};

use super::access::operator;
use super::callbacks::{Said, Service};
use super::changes::{read, write};
use super::{name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

#[test]
fn a_number_leads_to_its_file_wherever_that_moves_and_to_no_other() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let top = root(&volume).await;
        let a = top.make_directory(&nobody(), name("a"), 0o755).await.unwrap();
        let made = a.create(&nobody(), name("page"), NEW).await.unwrap();
        write(&made.writer, 0, "text").await.unwrap();
        let [above, page] = [a.object(), made.writer.file().object()].map(|object| object.unwrap().number());
        let find = async |number| volume.find(&nobody(), number, Rights::READ).await;
        let text = async || read(&find(page).await.unwrap().into_file().unwrap().0).await;
        assert_eq!(text().await, "text");
        assert!(volume.try_find(&nobody(), page, Rights::READ).is_some(), "from now on it is at hand");
        assert_eq!(find(Number::ROOT).await.unwrap().attributes().id, top.id());
        // Numbers go along with a directory, and with what is in it.
        top.rename(&operator(), name("a"), &top, name("b"), Replace::Never).await.unwrap();
        assert_eq!(text().await, "text");
        assert_eq!(find(above).await.unwrap().attributes().id, a.id());
        // Another file of the same name is another.
        let b = find(above).await.unwrap().into_directory().unwrap().0;
        b.rename(&nobody(), name("page"), &top, name("moved"), Replace::Never).await.unwrap();
        b.create(&nobody(), name("page"), NEW).await.unwrap();
        assert_eq!(text().await, "text");
        let forged = Number { uniquifier: page.uniquifier + 1, ..page };
        for nothing in
            [forged, Number { vnode: 4_000_000, uniquifier: 1 }, Number { vnode: 0, uniquifier: 0 }]
        {
            assert!(matches!(find(nothing).await, Err(Error::Stale)), "{nothing}");
        }
        b.set_access_list(&operator(), Some(&Acl::new())).await.unwrap();
        top.rename(&operator(), name("moved"), &b, name("closed"), Replace::Never).await.unwrap();
        assert!(matches!(find(page).await, Err(Error::Denied(_))));
        b.remove(&operator(), name("closed")).await.unwrap();
        drop(made);
        assert!(matches!(find(page).await, Err(Error::Stale)));
    });
}

#[test]
fn what_is_asked_for_by_number_is_promised_and_what_comes_along_without_waiting() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let (caller, until) = (nobody().sparing(client.holder()), time::now() + Duration::from_secs(3600));
        let top = root(&volume).await;
        let made = top.create(&nobody(), name("page"), NEW).await.unwrap();
        let page = Rc::clone(made.writer.file());
        let number = page.object().unwrap().number();
        let at_hand = || volume.try_find_with_callback(&caller, &client, number, Rights::READ, until);
        assert!(at_hand().is_none(), "nobody has looked for it by number");
        let look = volume.find_with_callback(&caller, &client, number, Rights::READ, until).await.unwrap();
        assert!(look.confirm().is_some());
        assert!(at_hand().unwrap().confirm().is_some());
        write(&made.writer, 0, "text").await.unwrap();
        assert_eq!(service.told.take(), [(1, Said::Object(page.object().unwrap().identity().clone()))]);
        assert!(look.confirm().is_none());
        // Renamed, it is not at hand any more, but found.
        top.rename(&nobody(), name("page"), &top, name("moved"), Replace::Never).await.unwrap();
        assert!(at_hand().is_none());
        let look = volume.find_with_callback(&caller, &client, number, Rights::READ, until).await.unwrap();
        assert!(look.confirm().is_some_and(|confirmed| confirmed.attributes.size == 4));
        assert!(volume.lookup(path("moved")).await.is_ok() && at_hand().is_some());
        let forged = Number { uniquifier: 77, ..number };
        let refused = volume.find_with_callback(&caller, &client, forged, Rights::READ, until).await;
        assert!(matches!(refused, Err(Error::Stale)));
    });
}

#[test]
fn what_another_program_has_moved_is_found_by_number_once_its_directory_is_read() {
    for (opens, handles) in [(true, true), (false, true), (false, false)] {
        let mut config = Config::clean();
        (config.fs.open_by_handle, config.fs.handles) = (opens, handles);
        on_lanes(1, config, 1, move |_, process, volume| async move {
            let fs = process.host.fs();
            for (file, text) in [("a/used", "used"), ("a/known", "known")] {
                fs.create_dir_all("/srv/a").unwrap();
                fs.create_dir_all("/srv/b").unwrap();
                fs.write(&format!("/srv/{file}"), text).unwrap();
            }
            let directory = async |at| volume.lookup(path(at)).await.unwrap().into_directory().unwrap().0;
            let numbers = async |at| directory(at).await.names(10).await.unwrap().entries;
            let before = numbers("a").await;
            // One of them is held open meanwhile.
            let used = volume.lookup(path("a/used")).await.unwrap();
            for one in ["used", "known"] {
                fs.rename(&format!("/srv/a/{one}"), &format!("/srv/b/{one}")).unwrap();
            }
            time::sleep(Duration::from_millis(100)).await;
            let after = numbers("b").await;
            for one in ["used", "known"] {
                let of = |entries: &[NumberedName]| {
                    entries.iter().find(|entry| &*entry.name == one.as_bytes()).unwrap().number
                };
                let number = of(&after);
                assert_eq!(number, of(&before), "{one} is the same file");
                let found = volume.find(&nobody(), number, Rights::READ).await;
                let found = found.unwrap_or_else(|error| panic!("{one}, {opens}, {handles}: {error}"));
                assert_eq!(read(&found.into_file().unwrap().0).await, one);
            }
            drop(used);
        });
    }
}
