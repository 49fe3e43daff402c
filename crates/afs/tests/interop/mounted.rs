//! What Debian's afsio (openafs-client) and afsd.fuse (openafs-fuse) make of the tree: OpenAFS's own client in user space, twice,
//! beside the files on disk.
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
    assert_eq!(std::fs::metadata(dir.join("files/big")).unwrap().len(), 60_000_001);
}

pub(super) fn work_in_mounts(tools: &Tools<'_>, dir: &Path) {
    if Command::new("afsd.fuse").arg("-help").output().is_err() {
        testkit::skip("the Debian package openafs-fuse is not installed; `cargo xtask test` installs it");
        return;
    }
    if File::open("/dev/fuse").is_err() {
        // Whether there is one is the kernel's, or the container's, to say.
        eprintln!("mounts of afsd.fuse are left out: there is no /dev/fuse");
        return;
    }
    let told = run(tools, dir, MOUNTS);
    assert!(told.ends_with("all is well\n"), "{told}");
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
head -c 60000001 /dev/urandom >sent
sum=$(md5sum <sent | cut -d' ' -f1)
afs write -file /afs/big -force -md5 <sent 2>&1 | grep -q $sum
cmp sent files/big
afs read -file /afs/big | cmp - sent
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
