"""Runs a program on a kernel that lacks something.

    without.py CALL[:ARGUMENT=VALUE]=ERRNO... -- PROGRAM ARG...

Each CALL (the number of a system call), where its ARGUMENT (0 to 5) has that VALUE in its lower half, fails with ERRNO: a filter of
seccomp(2), which the program and all that it starts keep.
"""

import ctypes
import os
import struct
import sys

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def statement(code, operand, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, operand)


def filter_of(rules):
    program = b""
    for rule in rules:
        what, errno = rule.rsplit("=", 1)
        call, _, argument = what.partition(":")
        steps = [statement(LOAD, 0), None]
        if argument:
            index, value = argument.split("=")
            steps += [statement(LOAD, 16 + 8 * int(index)), int(value)]
        steps.append(statement(RETURN, ERRNO | int(errno)))
        steps[1] = statement(EQUAL, int(call), 0, len(steps) - 2)
        if argument:
            steps[3] = statement(EQUAL, steps[3], 0, 1)
        program += b"".join(steps)
    return program + statement(RETURN, ALLOW)


def main():
    split = sys.argv.index("--")
    program = filter_of(sys.argv[1:split])
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    given = Program(len(program) // 8, ctypes.addressof(code))
    no_new_privileges, set_filter, filter_mode = 38, 22, 2
    if prctl(no_new_privileges, 1, 0, 0, 0) or prctl(set_filter, filter_mode, ctypes.addressof(given), 0, 0):
        sys.exit(f"without.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])


main()
