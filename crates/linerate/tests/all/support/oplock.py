"""Holds a batch oplock of a file of the share `tree` at 127.0.0.1 until it is broken, and gives it back half a second later.

Arguments: port, user, password, file, and a name that there is once who has changed the file has heard so. It says "held", and
"told first" where that was not before the oplock was given back.
"""

import os
import sys
import time

from impacket.smb3structs import (
    FILE_NON_DIRECTORY_FILE,
    FILE_OPEN,
    FILE_READ_DATA,
    FILE_SHARE_DELETE,
    FILE_SHARE_READ,
    FILE_SHARE_WRITE,
    SMB2_DIALECT_30,
    SMB2_OPLOCK_BREAK,
    SMB2_OPLOCK_LEVEL_BATCH,
)
from impacket.smbconnection import SMBConnection

port, user, password, name, done = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5]
client = SMBConnection("FILES", "127.0.0.1", sess_port=port, preferredDialect=SMB2_DIALECT_30)
client.login(user, password)
server = client.getSMBServer()
tree = client.connectTree("tree")
file = server.create(
    tree,
    name,
    FILE_READ_DATA,
    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
    FILE_NON_DIRECTORY_FILE,
    FILE_OPEN,
    0,
    oplockLevel=SMB2_OPLOCK_LEVEL_BATCH,
)
print("held", flush=True)
while True:
    packet = server.recvSMB(None)
    # It takes each message for an answer, by which it has spent a number; of what nobody asked for it has not.
    server._Connection["SequenceWindow"] += 1 - packet["CreditCharge"]
    if packet["Command"] == SMB2_OPLOCK_BREAK:
        break
time.sleep(0.5)
assert not os.path.exists(done), "who made the change heard of it before the oplock was given back"
# To close the file is to give all of it back.
client.closeFile(tree, file)
print("told first", flush=True)
client.logoff()
