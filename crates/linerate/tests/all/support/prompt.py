"""What a terminal shows after a command that asks for a password has ended while it asked.

    prompt.py HOW PROGRAM ARG...

HOW: `key`, by Ctrl-C at the terminal; `end`, by Ctrl-D; `line`, by a line that is typed; `stop`, by Ctrl-Z, `fg` and a line; or the name of a signal.
With `stop` it says too whether typing was shown while the command was stopped, and hidden when it went on. The command runs in a script, which says
"after" when it goes on. One line is printed: whether typing was hidden, is shown in the end, whether the script went on, what was said.
"""

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import termios
import time

how, command = sys.argv[1], sys.argv[2:]
in_stop = None
pid, terminal = pty.fork()
if pid == 0:
    if how == "stop":
        # A shell that leaves the terminal's modes to its jobs.
        os.environ["PS1"] = ""
        os.execvp("dash", ["dash", "-i"])
    os.execvp("bash", ["bash", "-c", '"$@"; echo after', "script"] + command)

said = b""


def is_shown():
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def listen(until, seconds=20):
    global said
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                said += os.read(terminal, 4096)
            except OSError:
                return


if how == "stop":
    os.write(terminal, (shlex.join(command) + "\n").encode())
listen(lambda: b"Password for" in said and not is_shown())
was_hidden = not is_shown()
if how == "key":
    os.write(terminal, b"\x03")
elif how == "end":
    os.write(terminal, b"\x04")
elif how == "line":
    os.write(terminal, b"Secret007\n")
    listen(lambda: b"Once more" in said and not is_shown())
    os.write(terminal, b"Secret007\n")
elif how == "stop":
    os.write(terminal, b"\x1a")
    listen(lambda: b"Stopped" in said and is_shown())
    in_stop = is_shown()
    os.write(terminal, b"fg\n")
    listen(lambda: said.count(b"Password for") > 1 and not is_shown())
    in_stop = {"shown": in_stop, "hidden_after": not is_shown(), "asks": said.count(b"Password for")}
    os.write(terminal, b"Secret007\n")
    listen(lambda: b"Once more" in said and not is_shown())
    os.write(terminal, b"Secret007\n")
    listen(lambda: b"is user" in said)
else:
    # The command alone, which is the script's child.
    child = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, check=True, text=True).stdout
    os.kill(int(child.split()[0]), getattr(signal, how))
listen(lambda: False, 3)
try:
    shown = is_shown()
except termios.error:
    shown = None
os.kill(pid, signal.SIGKILL)
told = {"hidden": was_hidden, "shown": shown, "after": b"after" in said, "stop": in_stop, "said": said.decode()}
print(json.dumps(told))
