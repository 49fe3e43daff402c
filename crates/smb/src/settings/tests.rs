use std::path::Path;

use service::Service as _;

use super::*;

const VOLUME: &str = "[[volume]]\nname = 'files'\npath = 'data'\n";

fn read(text: &str) -> Result<Option<Arc<dyn Settings>>, String> {
    let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
    let volumes = VolumeSection::all(&document).map_err(|error| error.to_string())?;
    Smb::default().read(&document, &volumes).map_err(|error| error.to_string())
}

#[test]
fn a_configuration_asks_for_it_by_its_table_and_has_the_port_that_clients_know() {
    assert!(read(VOLUME).unwrap().is_none());
    assert!(read(&format!("{VOLUME}[smb]\nlisten = 'off'\n")).unwrap().is_none());
    let settings = read(&format!("{VOLUME}[smb]\n")).unwrap().unwrap();
    assert_eq!(settings.sockets()[0].address.to_string(), "127.0.0.1:445");
    assert_eq!(settings.connections().per_lane, 4096);
}

/// A share of a directory, with one key as it is said.
fn homes(key: &str) -> String {
    let keys = ["name = 'homes'", "volume = 'files'", "directory = '%U'"];
    let name = |key: &str| key.split(' ').next().unwrap().to_owned();
    let others = keys.iter().filter(|other| name(other) != name(key));
    std::iter::once("[[smb.share]]")
        .chain(others.copied())
        .chain([key])
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn a_share_of_a_directory_has_what_its_volume_says_whether_that_is_a_share_or_not() {
    let text = format!(
        "{VOLUME}smb = 'off'\nwritable = 'listed'\nsmb_hide = ['x']\n[smb]\n{}",
        homes("create = true")
    );
    let document = Document::of_text(Path::new("/etc/linerate.toml"), &text);
    let volumes = VolumeSection::all(&document).unwrap();
    let section = document.tables::<Tables>().unwrap().smb.unwrap();
    let shares = shares(&section, &volumes, &document.volumes().unwrap()).unwrap();
    let [share] = &shares[..] else { panic!("{shares:?}") };
    let directory = share.directory.as_ref().unwrap();
    assert_eq!(
        (&*share.name, share.volume.as_str(), &*share.hide),
        ("homes", "files", &["x".to_owned()][..])
    );
    assert!(directory.create && directory.template.varies());
    assert!(share.path.ends_with("data/%U"), "{:?}", share.path);
    assert!(read(&text).unwrap().unwrap().needs_objects(&"files".parse().unwrap()));
}

#[test]
fn signing_is_required_unless_it_is_said_otherwise_and_guests_beside_it_are_no_mistake() {
    for (text, expected) in [
        ("", Signing::Required),
        ("guest = true\n", Signing::Required),
        ("anonymous = true\n", Signing::Required),
        ("signing = 'required'\nguest = true\n", Signing::Required),
        ("signing = 'allowed'\n", Signing::Allowed),
    ] {
        let text = format!("{VOLUME}[smb]\n{text}");
        let document = Document::of_text(Path::new("/etc/linerate.toml"), &text);
        assert_eq!(document.tables::<Tables>().unwrap().smb.unwrap().signing, expected, "{text}");
        assert!(read(&text).unwrap().is_some(), "{text}");
    }
}

#[test]
fn volumes_have_objects_only_where_they_are_shares() {
    let text =
        format!("{VOLUME}smb_share = 'Files'\n[[volume]]\nname = 'b'\npath = 'b'\nsmb = 'off'\n[smb]\n");
    let settings = read(&text).unwrap().unwrap();
    let needs = |name: &str| settings.needs_objects(&name.parse().unwrap());
    assert!(needs("files") && !needs("b"));
}

#[test]
fn contradictions_name_their_key_and_what_would_do() {
    for (text, start, word) in [
        (format!("{VOLUME}smb = 'off'\n[smb]\n"), "smb.listen: ", "[[volume]]"),
        (format!("{VOLUME}smb_share = 'ipc$'\n[smb]\n"), "volume[0].smb_share: ", "pipes"),
        (format!("{VOLUME}smb_share = 'a/b'\n[smb]\n"), "volume[0].smb_share: ", "off"),
        (
            format!("{VOLUME}[[volume]]\nname = 'b'\npath = 'b'\nsmb_share = 'FILES'\n[smb]\n"),
            "volume[1].smb_share: ",
            "twice",
        ),
        (format!("{VOLUME}[smb]\nsigning = 'off'\n"), "in /etc/linerate.toml: ", "\"required\""),
        (format!("{VOLUME}[smb]\nencryption = 'required'\nanonymous = true\n"), "smb.encryption: ", "key"),
        (format!("{VOLUME}smb_test_delay_ms = 5\n[smb]\n"), "volume[0].smb_test_delay_ms: ", "test_switches"),
        (format!("{VOLUME}smb_hide = ['a/b']\n[smb]\n"), "volume[0].smb_hide: ", "slash"),
        (format!("{VOLUME}[smb]\ncredits = 1\n"), "smb.credits: ", "8192"),
        (format!("{VOLUME}[smb]\ntransfer_max = '32M'\n"), "smb.transfer_max: ", "65536"),
        (format!("{VOLUME}[smb]\nmemory_per_lane = '8M'\n"), "smb.memory_per_lane: ", "between"),
        (
            format!("{VOLUME}[smb]\n[[smb.interface]]\naddress = '10.0.0.1'\nspeed = 0\n"),
            "smb.interface[0].speed: ",
            "between 1",
        ),
        (format!("{VOLUME}[smb]\nserver_name = 'a.b'\n"), "smb.server_name: ", "15"),
        (format!("{VOLUME}[smb]\n{}", homes("name = 'FILES'")), "smb.share[0].name: ", "twice"),
        (format!("{VOLUME}[smb]\n{}", homes("name = 'a/b'")), "smb.share[0].name: ", "no name"),
        (format!("{VOLUME}[smb]\n{}", homes("volume = 'other'")), "smb.share[0].volume: ", "other"),
        (
            format!("{VOLUME}[smb]\n{}", homes("directory = '/%U'")),
            "smb.share[0].directory: ",
            "within a volume",
        ),
        (format!("{VOLUME}[smb]\n{}", homes("directory = '%H'")), "smb.share[0].directory: ", "%U"),
        (format!("{VOLUME}[smb]\n{}", homes("create = true")), "smb.share[0].create: ", "writable"),
        (
            format!("{VOLUME}[smb]\n{}", homes("path = '/home'")),
            "in /etc/linerate.toml: ",
            "unknown key `path`",
        ),
        (format!("{VOLUME}[smb]\nport = 1\n"), "in /etc/linerate.toml: ", "unknown key `port`"),
    ] {
        let problem = read(&text).unwrap_err();
        assert!(problem.starts_with(start) && problem.contains(word), "{text:?} gave {problem}");
    }
}

#[test]
fn the_command_line_has_the_last_word() {
    let document = Document::of_text(Path::new("/x"), format!("{VOLUME}[smb]\n"));
    let volumes = VolumeSection::all(&document).unwrap();
    assert!(Smb::listening(Some(Vec::new())).read(&document, &volumes).unwrap().is_none());
    let given = Smb::listening(Some(vec![SocketAddr::from(([127, 0, 0, 1], 1445))]));
    let settings = given.read(&document, &volumes).unwrap().unwrap();
    assert_eq!(settings.sockets()[0].address.port(), 1445);
}
