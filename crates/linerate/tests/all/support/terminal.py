"""What a command writes to a terminal of so many columns.

    terminal.py COLUMNS PROGRAM ARG...
"""

import fcntl
import os
import pty
import struct
import sys
import termios

columns, command = int(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    # It waits until the terminal has its size.
    os.read(0, 1)
    # What is told of progress draws over itself.
    os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
    os.execv(command[0], command)

fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
modes = termios.tcgetattr(terminal)
modes[3] &= ~termios.ECHO
termios.tcsetattr(terminal, termios.TCSANOW, modes)
os.write(terminal, b"\n")
said = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    said += part
os.waitpid(pid, 0)
sys.stdout.buffer.write(said.replace(b"\r\n", b"\n"))
