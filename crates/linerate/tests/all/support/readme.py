"""Runs the commands of a README in order, as its reader does at a terminal.

    readme.py README PROGRAM DIR

Commands are the lines of blocks of the language `sh`. PROGRAM stands for `cargo run --release --`, and DIR/tmp for /tmp. A server
(`serve`) runs on beside the commands behind it, until the next one starts. A question for a password is answered. What runs until
it is ended (`stat`) is ended by Ctrl-C after three lines. One line of JSON is printed: of each command its text, its exit status
(null of a server that still runs) and what it said.
"""

import json
import os
import pty
import re
import select
import sys
import time

readme, program, home = sys.argv[1:]
ASKS = re.compile(rb"(?i)(password|once more)[^\r\n]*:\s*$")
SECONDS = 60


class Terminal:
    def __init__(self, command):
        self.command, self.said, self.answered = command, b"", 0
        line = command.replace("cargo run --release --", program).replace("/tmp/", home + "/tmp/")
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvp("bash", ["bash", "-c", line])

    def listen(self, until):
        """Reads and answers until the command ends, `until` holds of what was said, or time is up; says whether it still runs."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not until(self.said):
            if not select.select([self.terminal], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(self.terminal, 65536)
            except OSError:
                return False
            self.said += part
            if ASKS.search(self.said[self.answered:]):
                self.answered = len(self.said)
                os.write(self.terminal, b"Secret007\n")
        return True

    def interrupt(self):
        os.write(self.terminal, b"\x03")
        self.listen(lambda said: False)

    def told(self, runs):
        status = None if runs else os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return {"command": self.command, "status": status, "said": self.said.decode(errors="replace").replace("\r\n", "\n")}


blocks = re.findall(r"^```sh\n(.*?)^```", open(readme).read(), re.S | re.M)
told, server = [], None
for line in (line for block in blocks for line in block.splitlines()):
    command = re.sub(r"\s+#.*", "", line)
    is_server, is_endless = " serve " in command, command.endswith(" stat")
    if is_server and server:
        server.interrupt()
    running = Terminal(command)
    runs = running.listen(lambda said: (is_server and b"\r\nTry:" in said) or (is_endless and said.count(b"\n") > 3))
    if is_server:
        server = running
    elif runs and is_endless:
        running.interrupt()
        runs = False
    told.append(running.told(runs))
if server:
    server.interrupt()
print(json.dumps(told))
