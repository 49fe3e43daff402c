"""smbprotocol uses the share `tree` of a server at 127.0.0.1: port, user, password and the tree's directory are the arguments."""

import os
import sys

import smbclient
import smbclient.path
import smbclient.shutil
from smbprotocol.exceptions import LogonFailure, SMBOSError

PORT, USER, PASSWORD, TREE = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
LARGE = bytes((at * 31 + at // 253) & 255 for at in range(3_000_001))
SHARE = r"\\127.0.0.1\tree"


def refused(kinds, what, *arguments, **named):
    try:
        what(*arguments, **named)
    except kinds as error:
        return error
    raise AssertionError(f"{what.__name__}{arguments} is not refused")


for encrypt in (False, True):
    # Each begins with a connection of its own.
    cache = {}
    how = {"port": PORT, "connection_cache": cache}
    refused(LogonFailure, smbclient.register_session, "127.0.0.1", username=USER, password="wrong", **how)
    smbclient.reset_connection_cache(connection_cache=cache)
    how |= {"username": USER, "password": PASSWORD, "encrypt": encrypt}
    smbclient.register_session("127.0.0.1", **how)

    def at(*names):
        return "\\".join([SHARE, "dir", *names])

    smbclient.makedirs(at("sub"), **how)
    with smbclient.open_file(at("large"), mode="wb", **how) as file:
        assert file.write(LARGE) == len(LARGE)
    with smbclient.open_file(at("large"), mode="rb", **how) as file:
        assert file.read() == LARGE
        file.seek(-10, os.SEEK_END)
        assert file.read() == LARGE[-10:]
    with smbclient.open_file(at("lines"), mode="w", encoding="utf-8", **how) as file:
        file.write("één\nzwei\n")
    with smbclient.open_file(at("lines"), mode="a", encoding="utf-8", **how) as file:
        file.write("three\n")
    with smbclient.open_file(at("lines"), encoding="utf-8", **how) as file:
        assert file.read() == "één\nzwei\nthree\n"
    assert sorted(smbclient.listdir(at(), **how)) == ["large", "lines", "sub"]
    assert smbclient.stat(at("large"), **how).st_size == len(LARGE)
    assert smbclient.stat_volume(at(), **how).total_size > 0
    for number in range(300):
        smbclient.open_file(at("sub", f"file {number}"), mode="x", **how).close()
    found = smbclient.walk(at(), **how)
    assert sum(len(files) for _, _, files in found) == 302
    # Copies within the server.
    smbclient.copyfile(at("large"), at("copy"), **how)
    with smbclient.open_file(at("copy"), mode="rb", **how) as file:
        assert file.read() == LARGE
    refused(SMBOSError, smbclient.rename, at("copy"), at("lines"), **how)
    smbclient.replace(at("copy"), at("lines"), **how)
    smbclient.setxattr(at("lines"), b"NAME", b"value", **how)
    assert smbclient.getxattr(at("lines"), b"NAME", **how) == b"value"
    with smbclient.open_file(at("lines:stream"), mode="wb", **how) as file:
        file.write(b"in a stream")
    with smbclient.open_file(at("lines:stream"), mode="rb", **how) as file:
        assert file.read() == b"in a stream"
    smbclient.utime(at("lines"), times=(1_000_000_000, 1_100_000_000), **how)
    assert smbclient.stat(at("lines"), **how).st_mtime == 1_100_000_000
    # Links that were made beside the server, as themselves.
    os.symlink("large", f"{TREE}/dir/link")
    os.symlink("sub", f"{TREE}/dir/to sub")
    os.symlink("/nowhere", f"{TREE}/dir/dangling")
    assert smbclient.stat(at("link"), **how).st_size == len(LARGE)
    assert smbclient.path.islink(at("link"), **how) and not smbclient.path.islink(at("large"), **how)
    assert smbclient.readlink(at("link"), **how).endswith("large")
    for link in ("link", "dangling"):
        smbclient.unlink(at(link), **how)
        assert not os.path.lexists(f"{TREE}/dir/{link}"), link
    os.unlink(f"{TREE}/dir/to sub")
    for missing in (smbclient.stat, smbclient.unlink, smbclient.listdir):
        assert refused(SMBOSError, missing, at("none"), **how).ntstatus in (0xC0000034, 0xC000003A)
    refused(SMBOSError, smbclient.rmdir, at(), **how)
    smbclient.shutil.rmtree(at(), **how)
    assert not os.path.exists(f"{TREE}/dir")
    smbclient.reset_connection_cache(connection_cache=cache)
