"""impacket uses the share `tree` of a server at 127.0.0.1: port, user and password are the arguments."""

import io
import sys
from importlib.metadata import version

from impacket.smb3structs import SMB2_DIALECT_002, SMB2_DIALECT_21, SMB2_DIALECT_30, SMB2_DIALECT_311
from impacket.smbconnection import SessionError, SMBConnection

PORT, USER, PASSWORD = int(sys.argv[1]), sys.argv[2], sys.argv[3]
LARGE = bytes((at * 31 + at // 253) & 255 for at in range(300_001))


def connected(dialect):
    return SMBConnection("FILES", "127.0.0.1", sess_port=PORT, preferredDialect=dialect)


def refused(status, what, *arguments):
    try:
        what(*arguments)
    except SessionError as error:
        assert status in str(error), error
        return
    raise AssertionError(f"{what.__name__}{arguments} is not refused")


# It is used as it comes. Before 0.11 it begins the hash of a sign-in by 3.1.1 from nothing, where MS-SMB2 3.2.5.3 goes on from the
# negotiation's, and no server can check what it signs.
VERSION = tuple(int(part) for part in version("impacket").split(".")[:2])
LATEST = (SMB2_DIALECT_311,) if VERSION >= (0, 11) else ()
for dialect in (SMB2_DIALECT_002, SMB2_DIALECT_21, SMB2_DIALECT_30) + LATEST:
    client = connected(dialect)
    assert client.getDialect() == dialect
    refused("STATUS_LOGON_FAILURE", client.login, USER, "wrong")
    client.close()
    client = connected(dialect)
    client.login(USER, PASSWORD)
    assert "tree" in [share["shi1_netname"].rstrip("\0") for share in client.listShares()]
    refused("STATUS_BAD_NETWORK_NAME", client.connectTree, "nowhere")
    client.createDirectory("tree", "dir")
    refused("STATUS_OBJECT_NAME_COLLISION", client.createDirectory, "tree", "dir")
    client.putFile("tree", "dir\\large", io.BytesIO(LARGE).read)
    back = io.BytesIO()
    client.getFile("tree", "dir\\large", back.write)
    assert back.getvalue() == LARGE
    names = {entry.get_longname(): entry.get_filesize() for entry in client.listPath("tree", "dir\\*")}
    assert names.keys() == {".", "..", "large"} and names["large"] == len(LARGE), names
    refused("STATUS_OBJECT_NAME_NOT_FOUND", client.getFile, "tree", "dir\\none", back.write)
    refused("STATUS_DIRECTORY_NOT_EMPTY", client.deleteDirectory, "tree", "dir")
    client.rename("tree", "dir\\large", "dir\\renamed")
    client.deleteFile("tree", "dir\\renamed")
    client.deleteDirectory("tree", "dir")
    refused("NOT_FOUND", client.deleteFile, "tree", "dir\\renamed")
    client.logoff()

client = connected(SMB2_DIALECT_30)
client.login(USER, PASSWORD)
client.putFile("tree", "left", io.BytesIO(b"left by impacket").read)
client.logoff()
