//! Use of the tree by Debian's afsio (openafs-client) and afsd.fuse (openafs-fuse): OpenAFS's own client in
//! user space, twice, beside the files on disk.
//!
//! afsio 1.8.9 cannot make a file (it breaks up paths wrongly and dies), so it writes to those that there are, and puts what lies
//! beyond 64 MiB twice as far. afsd.fuse has no
//! change of times, so git fetches rather than copies, and puts `/afs/` before what a symbolic link says.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::{ADDRESS, CELL, Tools};

/// Runs a script in a mount namespace of its own, where the cell is known by /etc/openafs; what it says.
fn run(tools: &Tools<'_>, dir: &Path, script: &str) -> String {
    let script = format!("set -eu\nmount --bind {} /etc/openafs\n{script}", tools.config.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(dir);
    command.env("HOME", dir).env("CELL", CELL).env("SERVER", ADDRESS);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{script}\nsays {told}");
    told
}

pub(super) fn write_files(tools: &Tools<'_>, dir: &Path) {
    for name in ["one", "empty", "big"] {
        std::fs::write(dir.join("files").join(name), "").unwrap();
    }
    let told = run(tools, dir, AFSIO);
    assert!(told.ends_with("all is well\n"), "{told}");
    assert_eq!(std::fs::read(dir.join("files/one")).unwrap(), b"xyz");
    assert_eq!(std::fs::metadata(dir.join("files/big")).unwrap().len(), 67_108_864);
}

/// Returns whether there is an afsd.fuse, and what it needs.
fn can_mount() -> bool {
    if Command::new("afsd.fuse").arg("-help").output().is_err() {
        testkit::skip("the Debian package openafs-fuse is not installed; `cargo xtask test` installs it");
        return false;
    }
    if File::open("/dev/fuse").is_err() {
        testkit::skip("there is no /dev/fuse: it is the kernel's, or the container's, to give");
        return false;
    }
    true
}

pub(super) fn work_in_mounts(tools: &Tools<'_>, dir: &Path) {
    if !can_mount() {
        return;
    }
    let told = run(tools, dir, MOUNTS);
    assert!(told.ends_with("all is well\n"), "{told}");
}

/// From `root.afs` by the cell's root to every volume, while volumes come and go.
pub(super) fn walk_from_the_root(tools: &Tools<'_>, dir: &Path) {
    if can_mount() {
        let told = run(tools, dir, &format!("server={}\n{WALK}", std::process::id()));
        assert!(told.ends_with("all is well\n"), "{told}");
    }
}

/// Bytes and sums of what is written and read, by name and by number; locks are told by the status.
const AFSIO: &str = r#"
afs() { timeout 60 afsio "$@" -cell $CELL; }
printf x | afs write -file /afs/one -force
test "$(cat files/one)" = x
printf yz | afs append -file /afs/one
test "$(cat files/one)" = xyz
printf xyz | afs write -file /afs/one -force
test "$(afs read -file /afs/one)" = xyz
test -z "$(afs read -file /afs/empty)"
# It leaves what a longer file had behind.
for size in 1 1048576 60000001 67108864; do
    head -c $size /dev/urandom >sent
    sum=$(md5sum <sent | cut -d' ' -f1)
    afs write -file /afs/big -force -md5 <sent 2>&1 | grep -q $sum
    cmp sent files/big
    afs read -file /afs/big | cmp - sent
    afs read -file /afs/big -md5 2>&1 >/dev/null | grep -q $sum
done
volume=$(vos examine files -noauth -config /etc/openafs | sed -n 's/^files *\([0-9]*\) RW.*/\1/p')
afs fidread -fid $volume.1.1 2>&1 | grep -q "is a directory"
afs lock -file /afs/one
afs read -file /afs/one >/dev/null
rm -f sent
echo all is well
"#;

/// Two clients, `a` and `b`, with a cache each.
const MOUNTS: &str = r#"
pids=
end() { umount -l a b 2>/dev/null || :; test -z "$pids" || kill -9 $pids 2>/dev/null || :; }
trap end EXIT
fail() { cat ./*.out; echo "FAILED: $*"; exit 1; }
# What a close has stored comes a moment after it: afsd.fuse is told of closes when the caller has gone on.
soon() { for try in $(seq 300); do if eval "$1" 2>/dev/null; then return 0; fi; sleep 0.1; done; fail "$1"; }
printf '/afs:%s:50000\n' $PWD >/etc/openafs/cacheinfo
mkdir files/many
(cd files/many && seq -f n%g 1 10000 | xargs touch)
echo hello >files/hello
for client in a b; do
    mkdir -p $client cache-$client
    afsd.fuse -f -confdir /etc/openafs -cachedir $PWD/cache-$client -mountdir $PWD/$client >$client.out 2>&1 &
    pids="$pids $!"
done
soon 'test "$(timeout 5 cat a/hello)" = hello'
soon 'test "$(timeout 5 cat b/hello)" = hello'

# Each sees what the other writes.
mkdir a/dir
echo one >a/dir/f
soon 'test "$(cat files/dir/f)" = one'
soon 'test "$(cat b/dir/f)" = one'
echo two >>b/dir/f
soon 'test "$(cat a/dir/f | tr "\n" +)" = one+two+'
echo other >files/hello
soon 'test "$(cat a/hello)" = other'
soon 'test "$(cat b/hello)" = other'

mv a/dir/f a/dir/g
soon 'test "$(ls b/dir)" = g'
ln a/dir/g a/dir/h
soon 'test "$(stat -c %h files/dir/h b/dir/h | tr "\n" +)" = 2+2+'
rm b/dir/g
soon 'test "$(ls a/dir)" = h'
soon 'test "$(cat a/dir/h | tr "\n" +)" = one+two+'
ln -s h a/dir/link
soon 'test "$(readlink files/dir/link)" = /afs/h'
soon 'test "$(readlink b/dir/link)" = /afs/h'
mkdir a/below && mv a/dir/h a/below/h
soon 'test "$(ls b/below)" = h'
if ln a/below/h a/dir/again 2>/dev/null; then fail "a hard link across directories"; fi
chmod 600 a/below/h
soon 'test "$(stat -c %a files/below/h b/below/h | tr "\n" +)" = 600+600+'
rmdir a/dir 2>/dev/null && fail "a directory with a name in it is removed"

# Whoever made something goes on with it whatever its mode: nothing tells the two clients apart.
(umask 077; echo private >a/private; mkdir a/closed; echo in >a/closed/f)
soon 'test "$(stat -c %a files/private files/closed files/closed/f | tr "\n" +)" = 600+700+600+'
: >a/private || fail "a private file is not truncated"
soon 'test ! -s files/private'
echo again >>b/private || fail "a private file is not written"
soon 'test "$(cat a/private)" = again'
chmod 640 a/private || fail "a private file has its mode changed"
soon 'test "$(stat -c %a files/private b/private | tr "\n" +)" = 640+640+'
chmod 600 b/private || fail "a private file has its mode changed again"
ln a/private a/private-too || fail "a private file is linked"
echo more >b/closed/g || fail "a private directory takes a file"
chmod 755 a/closed || fail "a private directory is opened"
soon 'test "$(stat -c %a files/closed)" = 755'
rm -r a/closed || fail "a private directory is removed"

# A large directory that both look through.
soon 'test "$(ls a/many | wc -l)" = 10000'
soon 'test "$(ls b/many | wc -l)" = 10000'
: >a/many/one-more
soon 'test "$(ls b/many | wc -l)" = 10001'
test -e b/many/n7777 || fail "a name of a large directory"

head -c 5000000 /dev/urandom >a/large
soon 'cmp -s a/large files/large'
soon 'cmp -s b/large files/large'

# A project is fetched and built.
mkdir origin && cd origin
printf 'int f(void);\nint main(void) { return f() - 42; }\n' >main.c
printf 'int f(void) { return 42; }\n' >f.c
printf 'prog: main.o f.o\n\tcc -o $@ main.o f.o\n' >Makefile
git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm x
cd ..
if command -v make >/dev/null && command -v cc >/dev/null; then
    git clone -q file://$PWD/origin a/proj
    make -s -C a/proj
    soon './b/proj/prog'
    cmp b/proj/prog files/proj/prog
    (umask 077; git clone -q file://$PWD/origin a/hidden && git -C a/hidden fsck --strict) || fail "a private clone"
    test "$(cd a/proj && git status --short | tr '\n' +)" = '?? f.o+?? main.o+?? prog+' || fail "git status"
fi

# Tools that look at clients, and at what the server counts.
port=$(ss -Hulnp | sed -n "s/.*:\([0-9]*\) .*pid=${pids##* },.*/\1/p" | head -1)
timeout 20 cmdebug $SERVER -port $port -cache | grep -q "Chunk size" || fail cmdebug
timeout 20 rxdebug $SERVER $port -version | grep -q OpenAFS || fail "rxdebug of a client"
for collection in 0 1 2 3; do
    timeout 20 xstat_fs_test $SERVER -collID $collection -onceonly >xstat || fail "xstat_fs_test $collection"
    # Stock servers tell nothing in the first; the last has no headline.
    case $collection in
        0) ;;
        3) grep -q "[1-9][0-9]* nCBs" xstat && grep -q "[1-9][0-9]* BreakCallBacks" xstat || { cat xstat; fail "no promises told"; } ;;
        *) grep -q "coll $collection" xstat || fail "collection $collection" ;;
    esac
done
echo all is well
"#;

/// A client, `c`, that begins at `root.afs`; the configuration is changed beside it.
const WALK: &str = r#"
pids=
end() { umount -l c 2>/dev/null || :; test -z "$pids" || kill -9 $pids 2>/dev/null || :; }
trap end EXIT
fail() { cat ./c.out; ls -R c | head -50; echo "FAILED: $*"; exit 1; }
soon() { for try in $(seq 300); do if eval "$1" 2>/dev/null; then return 0; fi; sleep 0.1; done; fail "$1"; }
names() { timeout 10 ls "$1" | tr '\n' +; }
printf '/afs:%s:50000\n' $PWD >/etc/openafs/cacheinfo
mkdir -p c cache-c
echo hello >files/hello
afsd.fuse -f -confdir /etc/openafs -cachedir $PWD/cache-c -mountdir $PWD/c >c.out 2>&1 &
pids=$!
soon 'test "$(timeout 5 cat c/$CELL/files/hello)" = hello'
test "$(names c)" = $CELL+ || fail "root.afs: $(names c)"
test "$(names c/$CELL)" = files+music+ || fail "root.cell: $(names c/$CELL)"
echo new >c/$CELL/files/by-the-root
soon 'test "$(cat files/by-the-root)" = new'
if mkdir c/$CELL/dir 2>/dev/null; then fail "a directory in what is made up"; fi
if (echo x >c/here) 2>/dev/null; then fail "a file in what is made up"; fi
test "$(names c/$CELL)" = files+music+ || fail "what cannot be made is there"

# A volume comes, with a client that lives, and goes.
mkdir more && echo in >more/x
cp linerate.toml before
printf "[[volume]]\nname = 'more'\npath = 'more'\nwritable = 'anyone'\n" >>linerate.toml
kill -HUP $server
soon 'test "$(names c/$CELL)" = files+more+music+'
soon 'test "$(timeout 5 cat c/$CELL/more/x)" = in'
echo out >c/$CELL/more/x
soon 'test "$(cat more/x)" = out'
cp before linerate.toml
kill -HUP $server
soon 'test "$(names c/$CELL)" = files+music+'
soon '! timeout 20 cat c/$CELL/more/x'
soon 'test "$(timeout 5 cat c/$CELL/files/hello)" = hello'
echo other >files/hello
soon 'test "$(timeout 5 cat c/$CELL/files/hello)" = other'
echo all is well
"#;
