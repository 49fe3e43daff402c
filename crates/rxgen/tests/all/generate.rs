//! unit: sources that the generator makes of interface files, and errors of bad ones.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rxgen::{Builder, Loader};

/// Interface files in memory.
struct Texts(HashMap<&'static str, String>);

impl Loader for Texts {
    fn load(&mut self, name: &str, _including: Option<&str>) -> io::Result<(String, String)> {
        let text = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok((name.to_owned(), text.clone()))
    }
}

fn generate(text: &str) -> Result<String, String> {
    let mut texts = Texts(HashMap::from([("test.xg", text.to_owned())]));
    Builder::new().generate(&["test.xg"], &mut texts).map_err(|error| error.to_string())
}

fn error(text: &str) -> String {
    generate(text).expect_err(text)
}

fn test_directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

/// Compares the files of `tests/generated`, which the tests of stubs compile, with what the generator makes
/// now. `INSTA_UPDATE=always` writes it anew.
#[test]
fn checked_in_stubs_are_current() {
    for name in ["interface", "files"] {
        let directory = tempfile::tempdir().unwrap();
        let source = test_directory().join(format!("xg/{name}.xg"));
        Builder::new().out_dir(directory.path()).compile(&[source], "out.rs").unwrap();
        let generated = std::fs::read_to_string(directory.path().join("out.rs")).unwrap();
        let checked_in = test_directory().join(format!("generated/{name}.rs"));
        if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
            std::fs::write(&checked_in, &generated).unwrap();
        }
        assert!(generated == std::fs::read_to_string(checked_in).unwrap(), "run with INSTA_UPDATE=always");
    }
}

#[test]
fn small_interface() {
    let text = "const MAX = 0x20;\n\
                struct Point { int x; afs_int32 Y; };\n\
                package GEO_ statindex 3\n\
                Move(IN Point *From, string Name<MAX>, OUT Point *To) = 9;\n";
    insta::assert_snapshot!(generate(text).unwrap());
}

#[test]
fn defines_decide_conditionals() {
    let text = "package P_\n#if defined(A) && !defined(B)\nOne() = 1;\n#elif B\nTwo() = 2;\n#else\nThree() = 3;\n#endif\n";
    let with = |define: &str| {
        let mut texts = Texts(HashMap::from([("test.xg", text.to_owned())]));
        let rust = Builder::new().define(define).generate(&["test.xg"], &mut texts).unwrap();
        ["P_One", "P_Two", "P_Three"].map(|name| rust.contains(name))
    };
    assert_eq!(with("A"), [true, false, false]);
    assert_eq!(with("B"), [false, true, false]);
    assert_eq!(with("C"), [false, false, true]);
}

#[test]
fn files_given_together_share_their_includes() {
    let files = [
        ("a.xg", "#include \"c.xg\"\npackage A_\nGet(OUT Both *b) = 1;"),
        ("b.xg", "#include \"c.xg\"\npackage B_\nPut(IN Both *b) = 1;"),
        ("c.xg", "struct Both { int x; };"),
    ];
    let mut texts = Texts(files.into_iter().map(|(name, text)| (name, text.to_owned())).collect());
    let rust = Builder::new().generate(&["a.xg", "b.xg"], &mut texts).unwrap();
    assert_eq!(rust.matches("pub struct Both {").count(), 1);
    assert!(rust.contains("pub mod a {") && rust.contains("pub mod b {"));
}

#[test]
fn line_markers_of_a_preprocessor_are_followed() {
    let text = "# 1 \"original.xg\"\n\n# 40 \"included.xg\"\nstruct S {\n  nothing x;\n};\n";
    assert_eq!(error(text), "included.xg:41:3: no type `nothing` is defined");
}

#[test]
fn unreadable_include_names_its_place() {
    let text = "\n#include \"absent.xg\"\n";
    assert_eq!(error(text), "test.xg:2:1: cannot read absent.xg: entity not found");
}

#[test]
fn syntax_errors_say_where_and_what_was_expected() {
    let bad = [
        "const A 5;",
        "struct S { int x }",
        "struct S { int x; };\npackage P_\nGet(IN S *s\n OUT S *t) = 1;",
        "struct S {",
        "struct S { unsigned; };",
        "enum E { A = , B };",
        "union U switch (int t) { int x; };",
        "package P_ Get() splat = 1;",
        "package P_ Get(int a) = 1;",
        "package P_ Get(IN int a) = (3);",
        "package 5",
        "typedef void x;",
        "const S = \"open;",
        "struct S { int $x; };",
        "const A = 99999999999999999999;",
        "  /* never closed",
        "#ifdef X\nstruct S { int x; };",
        "#endif",
        "#frobnicate",
        "#if 3 +\n#endif",
        "#error go away",
        "@{ int x;",
    ];
    let told: Vec<String> = bad.iter().map(|text| format!("{text:?}\n  {}", error(text))).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn meaningless_interfaces_are_refused() {
    let bad = [
        "struct S { T x; };",
        "struct S { int x; }; typedef int S;",
        "struct S { int x; S y; };",
        "union U switch (int t) { case 0: void; case 1: U u; };",
        "typedef b a; typedef a b;",
        "typedef a *a;",
        "struct S { int aB; int a_b; };",
        "struct a_b { int x; }; struct AB { int y; }; struct aB { int z; };",
        "const A = 1; const A = 2;",
        "const A = B;",
        "struct S { int x[0]; };",
        "struct S { int x<-1>; };",
        "struct S { int x[N]; };",
        "struct S { string x; };",
        "struct S { opaque x; };",
        "struct S { int *x[3]; };",
        "union U switch (float f) { case 0: void; };",
        "union U switch (int t) { case 1: void; case 1: int x; };",
        "enum E { A, B }; union U switch (E e) { case 7: void; };",
        "enum E { A = 1, B = 1 };",
        "enum E { A = 4294967296 };",
        "Get() = 1;",
        "statindex 4",
        "package P_ statindex 1 statindex 2",
        "package P_ One() = 1; Two() = 1;",
        "package P_ One(); Two() = 1;",
        "package P_ One() = -1;",
        "package P_ One(IN int a<>) = 1;",
        "package P_ One(IN int a, OUT int b, IN int A) = 1;",
        "package P_ Request() = 1;",
        "package P_ server() = 1;",
        "package P_ One() = 1; OneReply() = 2;",
    ];
    let told: Vec<String> = bad.iter().map(|text| format!("{text:?}\n  {}", error(text))).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn any_text_compiles_or_fails_with_a_place() {
    bolero::check!().for_each(|input: &[u8]| {
        let text = String::from_utf8_lossy(input).into_owned();
        let mut texts = Texts(HashMap::from([("test.xg", text)]));
        if let Err(error) = Builder::new().generate(&["test.xg"], &mut texts) {
            assert!(error.location().is_some(), "{error}");
        }
    });
}
