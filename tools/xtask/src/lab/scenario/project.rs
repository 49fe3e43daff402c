//! A project is fetched by git and built in the mount.

use std::process::Command;

use anyhow::ensure;

/// Clones the project to the directory `to`, which is new and stays.
pub(super) fn clone_and_make(to: &str) -> anyhow::Result<()> {
    let output = Command::new("sh").args(["-euc", SCRIPT, "sh", to]).env("HOME", "/tmp").output()?;
    let told = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&told));
    Ok(())
}

/// The origin lies beside the mount.
const SCRIPT: &str = r#"
rm -rf /tmp/origin && mkdir /tmp/origin && cd /tmp/origin
printf 'int f(void);\nint main(void) { return f() - 42; }\n' >main.c
printf 'int f(void) { return 42; }\n' >f.c
printf 'prog: main.o f.o\n\tcc -o $@ main.o f.o\n' >Makefile
git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm x
git clone -q file:///tmp/origin "$1"
cd "$1"
make -s
./prog
test "$(git status --short | tr '\n' +)" = '?? f.o+?? main.o+?? prog+'
git fsck --strict
echo 'int g(void);' >>f.c
test "$(git diff --stat | tail -1)" = ' 1 file changed, 1 insertion(+)'
git checkout -q f.c
make -s clean 2>/dev/null || rm -f ./*.o prog
test -z "$(git status --short)"
"#;
