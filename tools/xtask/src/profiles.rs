//! Checks of what the workspace's profiles promise of programs.

use crate::process;

/// Cargo forgets a profile's `strip` for a package whose override does not repeat it.
#[test]
fn programs_of_profiles_that_strip_are_stripped() {
    let manifest = std::fs::read_to_string(process::root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let mut of_programs = 0;
    for (name, profile) in manifest["profile"].as_table().unwrap() {
        let Some(strip) = profile.get("strip") else { continue };
        for program in ["linerate", "linerate-bench"] {
            let Some(own) = profile.get("package").and_then(|packages| packages.get(program)) else {
                continue;
            };
            assert_eq!(own.get("strip"), Some(strip), "profile.{name}.package.{program}");
            of_programs += 1;
        }
    }
    assert!(of_programs > 0, "no profile that strips says anything of a program");
}
