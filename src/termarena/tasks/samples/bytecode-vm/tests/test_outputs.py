"""Compiles /app/vm.c and grades what it does with images it has not seen."""
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

import guard
from sbc import Machine, OPS, WIDTH, assemble, image

SOURCE = "/app/vm.c"
SPEC_DIGEST = "082380f9c8e66cf3ea8ada725d47f67cc1d5927005bd5d62996347c739e6b0bf"
COMMAND = ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "vm", "vm.c"]
FORBIDDEN = [b"system", b"popen", b"fork", b"vfork", b"clone", b"execl", b"execle", b"execlp", b"execv", b"execve", b"execvp", b"execvpe",
             b"fexecve", b"posix_spawn", b"posix_spawnp", b"dlopen", b"dlmopen", b"syscall"]


class Lcg:
    def __init__(self, seed):
        self.state = seed

    def __call__(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n


def setUpModule():
    global DIR, BUILD
    os.umask(0o022)
    DIR = guard.give(tempfile.mkdtemp())
    unittest.addModuleCleanup(shutil.rmtree, DIR, ignore_errors=True)
    os.mkdir(os.path.join(DIR, "build"))
    guard.give(os.path.join(DIR, "build"))
    shutil.copyfile(SOURCE, os.path.join(DIR, "build", "vm.c"))
    BUILD = subprocess.run(COMMAND, cwd=os.path.join(DIR, "build"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True,
                           errors="replace", **guard.WHO)
    if BUILD.returncode:
        raise AssertionError("does not compile:\n" + BUILD.stdout[-3000:])


class Case(unittest.TestCase):
    """The programs of a test run when it ends, all from one shell: starting each from here would take several times as long."""

    def setUp(self):
        self.cases = []

    def tearDown(self):
        if self.cases:
            self.run_cases()

    def vm(self, *args, timeout=10):
        """Runs the program with nothing in its environment; output, error output, status."""
        done = subprocess.run([os.path.join(DIR, "build", "vm"), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={}, cwd=DIR, timeout=timeout, **guard.WHO)
        return done.stdout, done.stderr.decode("utf-8", "replace"), done.returncode

    def start(self, data, *args, timeout=10):
        path = os.path.join(DIR, "program.sbc")
        with open(path, "wb") as f:
            f.write(data)
        return self.vm(*args, path, timeout=timeout)

    def case(self, what, data, limit, source, want):
        self.cases.append((what, data, limit, source, want))

    def run_cases(self):
        folder = guard.folder(self)
        lines = []
        for i, (_, data, limit, source, _) in enumerate(self.cases):
            with open(os.path.join(folder, "%d.sbc" % i), "wb") as f:
                f.write(data)
            if source:
                with open(os.path.join(folder, "%d.in" % i), "wb") as f:
                    f.write(source)
            lines.append("%s/build/vm -s %d %d.sbc <%s >%d.out 2>%d.err\necho $?\n" % (DIR, limit, i, "%d.in" % i if source else "/dev/null", i, i))
        with open(os.path.join(folder, "script"), "w") as f:
            f.writelines(lines)
        status, told, _ = guard.run(["/bin/sh", "script"], folder, timeout=30)
        statuses = told.split()
        self.assertEqual((status, len(statuses)), (0, len(self.cases)), "not all programs ended in time")
        for i, (what, _, _, _, want) in enumerate(self.cases):
            with open(os.path.join(folder, "%d.out" % i), "rb") as out, open(os.path.join(folder, "%d.err" % i), "rb") as err:
                got = out.read(), err.read().decode("utf-8", "replace"), int(statuses[i])
            if got != want:
                self.fail("%s: got %.300r, not %.300r" % (what, got, want))

    def ends(self, text, out, status, error="", data=b"", memory=None, source=b"", limit=1000000, entry=0):
        """Assembles a program; its output, exit status and error line ('NAME label') are checked in the end."""
        code, labels = assemble(text)
        if error:
            name, _, label = error.rpartition(" ")
            error = "error: %s at %d\n" % (name, labels[label] if label in labels else int(label))
        want = out if isinstance(out, bytes) else out.encode(), error, status
        self.case(text[-400:], image(code, data, memory, entry), limit, source, want)

    def value(self, text, *want, **more):
        """What a program leaves on the stack, lowest first, seen through PUTI."""
        n = len(want)
        shown = "".join("PICK %d\nPUTI\nPUSHB 32\nPUTC\n" % (n - 1 - i) for i in range(n))
        self.ends(text + "\n" + shown + "PUSHB 0\nHALT\n", "".join("%d " % w for w in want), 0, **more)


class Source(unittest.TestCase):
    def test_specification_is_unchanged(self):
        with open("/app/SPEC.md", "rb") as f:
            self.assertEqual(hashlib.sha256(f.read()).hexdigest(), SPEC_DIGEST)

    def test_no_other_programs_are_used(self):
        with open(os.path.join(DIR, "build", "vm"), "rb") as f:
            names = set(f.read().split(b"\0"))
        self.assertEqual([n for n in FORBIDDEN if n in names], [])


class Images(Case):
    def test_example(self):
        data = bytes.fromhex("53424331 20000000 03000000 10000000 00000000 02000203 73020602 07501a00 00000271 020a7002 07900000 00005300"
                             "53011252 486920")
        self.assertEqual(self.start(data), (b"Hi 42\n", "", 7))

    def bad(self, data):
        out, err, status = self.start(data)
        self.assertEqual((out, status), (b"", 65))
        self.assertNotEqual(err, "")

    def test_bad_images(self):
        good = image(b"\x02\x00\x90", b"abc", 16)
        def header(code, data, memory, entry, rest=b"\x02\x00\x90abc"):
            return b"SBC1" + struct.pack("<IIII", code, data, memory, entry) + rest
        self.assertEqual(self.start(good), (b"", "", 0))
        cases = {
            "empty": b"", "cut in the header": good[:19], "magic": b"SBC2" + good[4:], "cut in the code": good[:22],
            "cut in the data": good[:-1], "one byte more": good + b"\0", "no code": header(0, 3, 16, 0, b"abc"),
            "data larger than memory": header(3, 3, 2, 0), "entry at the end": header(3, 3, 16, 3),
            "entry far away": header(3, 3, 16, 0xFFFFFFFF), "memory too large": header(3, 3, 1048577, 0),
            "memory huge": header(3, 3, 0xFFFFFFFF, 0), "code length that wraps": header(0xFFFFFFFF, 7, 16, 0),
            "data length that wraps": header(3, 0xFFFFFFFF, 0xFFFFFFFF, 0), "lengths that wrap together": header(0x80000003, 0x80000003, 0x80000003, 0),
            "code too large": image(b"\0" * 1048577),
        }
        for what, data in cases.items():
            with self.subTest(what):
                self.bad(data)

    def test_largest_image(self):
        code = b"\0" * (1048576 - 3) + b"\x02\x05\x90"
        self.assertEqual(self.start(image(code, b"x" * 1048576)), (b"", "", 5))

    def test_entry_and_initial_memory(self):
        self.ends("PUSHB 1\nHALT\nPUSHB 0\nPUSHB 6\nPUTS\nPUSHB 2\nHALT", b"ab\0\0\0\0", 2, data=b"ab", memory=6, entry=3)


class Arguments(Case):
    def test_wrong_arguments(self):
        path = os.path.join(DIR, "fine.sbc")
        with open(path, "wb") as f:
            f.write(image(b"\x02\x03\x90"))
        self.assertEqual(self.vm(path), (b"", "", 3))
        self.assertEqual(self.vm("-s", "2", path), (b"", "", 3))
        self.assertEqual(self.vm("-s", "000000000000000002", path), (b"", "", 3))
        for args in ([], [path, path], ["-x", path], ["-s", path], ["-s"], ["-s", "2"], ["-s", "", path], ["-s", "-1", path], ["-s", "+2", path],
                     ["-s", "2x", path], ["-s", " 2", path], ["-s", "0x10", path], ["-s", "1" * 19, path], [path, "-s", "2"],
                     ["-s", "2", "-s", "2", path], ["-q"]):
            with self.subTest(args):
                out, err, status = self.vm(*args)
                self.assertEqual((out, status), (b"", 64))
                self.assertNotEqual(err, "")

    def test_image_that_cannot_be_read(self):
        for path in ("/nonexistent/x.sbc", DIR):
            out, err, status = self.vm(path)
            self.assertEqual((out, status), (b"", 66), path)
            self.assertNotEqual(err, "")


class Instructions(Case):
    def test_stack_words(self):
        self.value("PUSH 5\nPUSHB -3\nDUP\nPUSH -2147483648\nOVER", 5, -3, -3, -2147483648, -3)
        self.value("PUSHB 1\nPUSHB 2\nPUSHB 3\nSWAP\nPICK 2\nDROP\nNOP\nPICK 2", 1, 3, 2, 1)

    def test_wrapping(self):
        self.value("PUSH 0x7fffffff\nPUSHB 1\nADD\nPUSH 0x80000000\nPUSHB 1\nSUB\nPUSH 0x12345678\nPUSH 0x9abcdef1\nMUL",
                   -2147483648, 2147483647, (0x12345678 * 0x9ABCDEF1 & 0xFFFFFFFF))
        self.value("PUSH 0x80000000\nNEG\nPUSH 65537\nDUP\nMUL\nPUSHB 0\nNOT", -2147483648, 131073, -1)

    def test_signed_division(self):
        for a, b, q, r in ((7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (-2147483648, -1, -2147483648, 0),
                           (-2147483648, 3, -715827882, -2), (5, -2147483648, 0, 5), (-2147483648, -2147483648, 1, 0)):
            self.value("PUSH %d\nPUSH %d\nDIV\nPUSH %d\nPUSH %d\nMOD" % (a, b, a, b), q, r)

    def test_unsigned_division(self):
        self.value("PUSH -7\nPUSHB 2\nDIVU\nPUSH -7\nPUSHB 10\nMODU\nPUSHB 1\nPUSH -1\nDIVU", 0x7FFFFFFC, 4294967289 % 10, 0)

    def test_shifts(self):
        self.value("PUSHB 1\nPUSHB 31\nSHL\nPUSHB 1\nPUSHB 33\nSHL\nPUSHB -8\nPUSHB 1\nSHR\nPUSHB -8\nPUSHB 1\nSHRU\nPUSHB -8\nPUSHB 32\nSHR\n"
                   "PUSHB -1\nPUSHB -1\nSHRU", -2147483648, 2, -4, 0x7FFFFFFC, -8, 1)

    def test_comparisons(self):
        for a, b in ((1, 2), (2, 1), (5, 5), (-1, 1), (1, -1), (-2147483648, 2147483647)):
            ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF
            self.value("".join("PUSH %d\nPUSH %d\n%s\n" % (a, b, op) for op in ("EQ", "NE", "LT", "LE", "LTU", "LEU")),
                       a == b, a != b, a < b, a <= b, ua < ub, ua <= ub)

    def test_memory(self):
        self.value("PUSHB 1\nPUSH 0x818283f4\nST32\nPUSHB 1\nLD32\nPUSHB 4\nLD8\nPUSHB 4\nLD8S\nPUSHB 7\nPUSH 0x1ff\nST8\nPUSHB 4\nLD32",
                   0x818283F4 - (1 << 32), 0x81, 0x81 - 256, -0xFFFF7F, memory=8)

    def test_copy_with_overlap(self):
        self.ends("PUSHB 2\nPUSHB 0\nPUSHB 6\nCOPY\nPUSHB 0\nPUSHB 8\nPUTS\nPUSHB 0\nPUSHB 1\nPUSHB 7\nCOPY\nPUSHB 0\nPUSHB 8\nPUTS\n"
                  "PUSHB 8\nPUSHB 8\nPUSHB 0\nCOPY\nPUSHB 8\nPUSHB 0\nPUTS\nPUSHB 0\nHALT", "ababcdef" + "babcdeff", 0, data=b"abcdefgh")

    def test_input_and_output(self):
        self.ends("l: GETC\nDUP\nPUSHB -1\nEQ\nJNZ e\nDUP\nPUTC\nPUSHB 1\nADD\nPUTC\nJMP l\ne: PUTI\nPUSHB 10\nPUTC\nGETC\nPUTI\nPUSHB 0\nHALT",
                  b"\x00\x01\xff\x00\x0a\x0b\x0d\x0e-1\n-1", 0, source=b"\x00\xff\n\r")

    def test_exit_status_is_taken_mod_64(self):
        for v, status in ((0, 0), (63, 63), (64, 0), (-1, 63), (70, 6)):
            self.ends("PUSH %d\nHALT" % v, "", status)

    def test_jumps(self):
        self.value("PUSHB 0\nJZ a\nPUSHB 9\nHALT\na: PUSHB 5\nJNZ b\nPUSHB 9\nHALT\nb: PUSHB 0\nJNZ a\nPUSHB 3\nJZ a\nPUSH c\nJMPI\nHALT\n"
                   "c: PUSHB 77", 77)

    def test_jump_into_an_operand(self):
        # the operand of the first PUSH is PUSHB 7, HALT
        self.ends("JMP 6\nPUSH 0x00900702\nHALT", "", 7)

    def test_untaken_branch_may_have_a_bad_target(self):
        self.value("PUSHB 1\nJZ 99999\nPUSHB 0\nJNZ -1\nPUSHB 4", 4)

    def test_count(self):
        self.value("COUNT\nNOP\nDROP\nCOUNT\nCOUNT", 4, 5)


class Frames(Case):
    def test_arguments_locals_and_result(self):
        self.ends("PUSHB 100\nPUSHB 1\nPUSHB 2\nPUSHB 3\nCALL f 3\nPUTI\nPUTI\nPUSHB 0\nHALT\n"
                  "f: GETL 0\nPUTI\nGETL 1\nPUTI\nGETL 2\nPUTI\nGETL 3\nPUTI\nPUSHB 9\nSETL 15\nPUSHB 8\nPUSHB 7\nGETL 15\nRET", "1230" "9" "100", 0)

    def test_locals_of_a_frame_start_at_zero_each_time(self):
        self.ends("CALL f 0\nDROP\nCALL f 0\nDROP\nPUSHB 0\nHALT\nf: GETL 5\nPUTI\nPUSHB 6\nSETL 5\nPUSHB 0\nRET", "00", 0)

    def test_locals_of_the_caller_survive(self):
        self.ends("PUSHB 5\nSETL 0\nPUSHB 1\nCALL f 1\nDROP\nGETL 0\nPUTI\nPUSHB 0\nHALT\nf: PUSHB 3\nSETL 0\nPUSHB 0\nRET", "5", 0)

    def test_sixteen_arguments(self):
        self.ends("".join("PUSHB %d\n" % i for i in range(16)) + "CALL f 16\nPUTI\nPUSHB 0\nHALT\nf: GETL 0\nPUTI\nGETL 15\nRET", "015", 0)

    def test_recursion(self):
        self.ends("PUSHB 15\nCALL fib 1\nPUTI\nPUSHB 0\nHALT\n"
                  "fib: GETL 0\nPUSHB 2\nLT\nJNZ base\nGETL 0\nPUSHB 1\nSUB\nCALL fib 1\nGETL 0\nPUSHB 2\nSUB\nCALL fib 1\nADD\nRET\nbase: GETL 0\nRET", "610", 0)

    def test_indirect_call(self):
        self.ends("PUSHB 8\nPUSHB 5\nPUSH f\nCALLI 2\nPUTI\nPUSHB 0\nHALT\nf: GETL 0\nGETL 1\nSUB\nRET", "3", 0)

    def test_stack_of_the_caller_is_out_of_reach(self):
        self.ends("PUSHB 1\nPUSHB 2\nCALL f 0\nf: PUSHB 1\nx: ADD", "", 71, "stack-underflow x")
        self.ends("PUSHB 1\nPUSHB 2\nCALL f 1\nf: x: RET", "", 71, "stack-underflow x")
        self.ends("PUSHB 1\nPUSHB 2\nCALL f 0\nf: PUSHB 1\nx: PICK 1", "", 71, "stack-underflow x")

    def test_depth(self):
        self.ends("PUSH 255\nCALL f 1\nPUTI\nPUSHB 0\nHALT\nf: GETL 0\nPUSHB 1\nEQ\nJNZ e\nGETL 0\nPUSHB 1\nSUB\nCALL f 1\nPUSHB 1\nADD\nRET\n"
                  "e: PUSHB 1\nRET", "255", 0)
        self.ends("PUSH 256\nCALL f 1\nPUTI\nPUSHB 0\nHALT\nf: GETL 0\nPUSHB 1\nEQ\nJNZ e\nGETL 0\nPUSHB 1\nSUB\nx: CALL f 1\nPUSHB 1\nADD\nRET\n"
                  "e: PUSHB 1\nRET", "", 76, "frame-error x")


class Errors(Case):
    def test_bad_opcode(self):
        unknown = sorted(set(range(256)) - {code for code, _ in OPS.values()})
        for op in unknown[::20]:
            self.ends("NOP\n.byte %d\n.byte 0 0 0 0 0" % op, "", 70, "bad-opcode 1")
        # Each of the others throws to the next; one that is carried out leaves nothing for PUTI.
        chain = "".join("TRY h%d\n.byte %d\n.byte 0 0 0 0 0\nh%d: PUTI\n" % (op, op, op) for op in unknown)
        self.ends(chain + "PUSHB 0\nHALT", "70" * len(unknown), 0)

    def test_truncated_operands(self):
        for name, (code, kinds) in OPS.items():
            for short in range(sum(WIDTH[k] for k in kinds)):
                self.ends("NOP\nNOP\n.byte %d%s" % (code, " 0" * short), "", 70, "bad-opcode 2")

    def test_stack_underflow(self):
        need = {"DROP": 1, "DUP": 1, "SWAP": 2, "OVER": 2, "NEG": 1, "NOT": 1, "JMPI": 1, "LD8": 1, "LD8S": 1, "LD32": 1, "ST8": 2, "ST32": 2,
                "COPY": 3, "PUTC": 1, "PUTI": 1, "PUTS": 2, "THROW": 1, "HALT": 1, "JZ 0": 1, "JNZ 0": 1, "SETL 0": 1, "PICK 2": 3,
                "CALL 0 4": 4, "CALLI 2": 3, "ADD": 2, "DIV": 2, "MODU": 2, "SHR": 2, "LEU": 2, "PICK 255": 256}
        for text, count in need.items():
            self.ends("PUSHB 0\n" * (count - 1) + "x: " + text, "", 71, "stack-underflow x")

    def test_stack_overflow(self):
        fill = "PUSHB 7\n" * 1024
        for text in ("PUSH 1", "PUSHB 1", "DUP", "OVER", "PICK 3", "GETL 0", "GETC", "COUNT", "TRY 0"):
            self.ends(fill + "x: " + text, "", 72, "stack-overflow x", limit=5000)
        self.ends(fill + "SWAP\nNEG\nADD\nPUTI\nPUSHB 0\nHALT", "0", 0)

    def test_bad_address(self):
        for p, text in ((8, "LD8"), (8, "LD8S"), (5, "LD32"), (8, "LD32"), (-1, "LD8"), (-1, "LD32"), (-4, "LD32"), (0x7FFFFFFF, "LD32")):
            self.ends("PUSH %d\nx: %s" % (p, text), "", 73, "bad-address x", memory=8)
        for p, text in ((8, "ST8"), (5, "ST32"), (-3, "ST32")):
            self.ends("PUSH %d\nPUSHB 1\nx: %s" % (p, text), "", 73, "bad-address x", memory=8)
        for p, q, n in ((1, 0, 8), (0, 1, 8), (0, 0, -1), (-1, 0, 2), (9, 0, 0), (0, 9, 0), (4, 4, -4)):
            self.ends("PUSH %d\nPUSH %d\nPUSH %d\nx: COPY" % (p, q, n), "", 73, "bad-address x", memory=8)
        for p, n in ((0, 9), (9, 0), (8, 1), (-1, 1), (1, -1)):
            self.ends("PUSH %d\nPUSH %d\nx: PUTS" % (p, n), "", 73, "bad-address x", memory=8)

    def test_no_memory_at_all(self):
        self.ends("PUSHB 0\nx: LD8", "", 73, "bad-address x", memory=0)
        self.ends("PUSHB 0\nPUSHB 0\nPUTS\nPUSHB 4\nHALT", "", 4, memory=0)

    def test_divide_by_zero(self):
        for op in ("DIV", "MOD", "DIVU", "MODU"):
            self.ends("PUSHB 5\nPUSHB 0\nx: " + op, "", 74, "divide-by-zero x")

    def test_bad_jump(self):
        for text in ("JMP 99", "JMP -1", "PUSHB 0\nx: JZ 99", "PUSHB 1\nx: JNZ 99", "PUSHB 99\nx: JMPI", "CALL 99 0", "PUSHB 99\nx: CALLI 0", "TRY 99"):
            self.ends(text if "x:" in text else "x: " + text, "", 75, "bad-jump x")
        self.ends("x: JMP 5", "", 75, "bad-jump x")

    def test_running_off_the_code(self):
        self.ends("PUSHB 1\nPUTI", "1", 75, "bad-jump 3")
        self.ends("JMP m\nf: PUSHB 1\nRET\nm: CALL f 0", "", 75, "bad-jump 14")

    def test_frame_errors(self):
        self.ends("PUSHB 1\nx: RET", "", 76, "frame-error x")
        self.ends("x: RET", "", 76, "frame-error x")
        self.ends("x: ENDTRY", "", 76, "frame-error x")

    def test_bad_operands(self):
        for text in ("GETL 16", "GETL 255", "SETL 16", "CALL 0 17", "CALL 9999 255", "CALLI 17"):
            self.ends("x: " + text, "", 77, "bad-operand x")

    def test_step_limit(self):
        self.ends("x: JMP x", "", 78, "step-limit x", limit=1000)
        self.ends("PUSHB 1\nPUTI\nx: PUSHB 0\nHALT", "1", 78, "step-limit x", limit=2)
        self.ends("PUSHB 1\nPUTI\nPUSHB 0\nx: HALT", "1", 78, "step-limit x", limit=3)
        self.ends("PUSHB 1\nPUTI\nPUSHB 0\nHALT", "1", 0, limit=4)
        self.ends("x: NOP", "", 78, "step-limit x", limit=0)

    def test_step_limit_comes_before_other_errors(self):
        self.ends("NOP", "", 78, "step-limit 1", limit=1)
        self.ends("NOP", "", 75, "bad-jump 1", limit=2)

    def test_order_of_checks(self):
        fill = "PUSHB 0\n" * 1024
        self.ends("JMP m\nf: x: DUP\nm: " + fill + "CALL f 0", "", 71, "stack-underflow x")
        self.ends("PUSH -1\nx: DIV", "", 71, "stack-underflow x")
        self.ends("x: CALL 9999 1", "", 71, "stack-underflow x")
        self.ends("JMP m\nf: x: CALL f 1\nm: PUSHB 1\nCALL f 1", "", 71, "stack-underflow x")
        self.ends("JMP m\nf: x: CALL 9999 0\nm: CALL f 0", "", 75, "bad-jump x")
        self.ends(fill + "x: GETL 16", "", 77, "bad-operand x")
        self.ends(fill + "x: TRY 99999", "", 75, "bad-jump x")

    def test_thrown(self):
        self.ends("PUSHB 5\nPUTI\nPUSH -123456\nx: THROW", "5", 79, "thrown -123456 x")
        self.ends("PUSH 0x80000000\nx: THROW", "", 79, "thrown -2147483648 x")

    def test_output_before_an_error_arrives(self):
        self.ends("l: PUSHB 97\nPUTC\nCOUNT\nPUSH 20000\nLT\nJNZ l\nPUSHB 0\nPUSHB 0\nx: DIV", "a" * 3334, 74, "divide-by-zero x")


class Handlers(Case):
    def test_caught_error_gives_its_number(self):
        for text, code in ((".byte 0xee", 70), ("DROP", 71), ("PUSHB 99\nLD8", 73), ("PUSHB 0\nPUSHB 0\nDIV", 74), ("JMP -1", 75),
                           ("PUSHB 0\nRET", 76), ("GETL 99", 77), ("PUSHB -5\nTHROW", -5)):
            self.ends("TRY h\n%s\nh: PUTI\nPUSHB 0\nHALT" % text, str(code), 0)

    def test_stack_is_cut_to_the_noted_height(self):
        self.ends("PUSHB 1\nPUSHB 2\nTRY h\nPUSHB 3\nPUSHB 4\nPUSHB 0\nDIV\nh: PUTI\nPUTI\nPUTI\nx: DROP", "7421", 71, "stack-underflow x")

    def test_lower_stack_stays(self):
        self.ends("PUSHB 1\nPUSHB 2\nPUSHB 3\nTRY h\nDROP\nDROP\nDROP\nDROP\nh: PUTI\nx: DROP", "71", 71, "stack-underflow x")
        self.ends("PUSHB 4\nPUSHB 2\nPUSHB 0\nTRY h\nDIV\nh: PUTI\nPUTI\nPUTI\nPUTI\nPUSHB 0\nHALT", "74024", 0)
        self.ends("PUSHB 4\nPUSHB 9\nTRY h\nTHROW\nh: PUTI\nPUTI\nx: DROP", "94", 71, "stack-underflow x")
        self.ends("PUSHB 5\nPUSHB 0\nTRY h\nJZ 9999\nh: PUTI\nPUTI\nPUTI\nPUSHB 0\nHALT", "7505", 0)

    def test_full_stack_is_caught(self):
        self.ends("TRY h\nl: PUSHB 1\nJMP l\nh: PUTI\nPUSHB 0\nHALT", "72", 0)
        self.ends("PUSHB 3\n" * 1023 + "TRY h\nPUSHB 1\nPUSHB 1\nh: PUTI\nPUTI\nPUSHB 0\nHALT", "723", 0)

    def test_handler_is_used_once(self):
        self.ends("TRY h\nDROP\nh: PUTI\nx: DROP", "71", 71, "stack-underflow x")

    def test_nested_handlers(self):
        self.ends("TRY a\nTRY b\nDROP\nb: PUTI\nPUSHB 44\nPUTC\nPUSHB 9\nTHROW\na: PUTI\nPUSHB 0\nHALT", "71,9", 0)

    def test_endtry(self):
        self.ends("TRY h\nENDTRY\nx: DROP\nh: PUSHB 0\nHALT", "", 71, "stack-underflow x")
        self.ends("TRY a\nTRY b\nENDTRY\nDROP\nb: PUSHB 1\nHALT\na: PUSHB 2\nHALT", "", 2)

    def test_error_in_a_callee_goes_to_the_caller(self):
        self.ends("PUSHB 6\nSETL 0\nPUSHB 50\nTRY h\nPUSHB 1\nPUSHB 2\nCALL f 2\nh: PUTI\nPUTI\nGETL 0\nPUTI\nPUSHB 0\nHALT\n"
                  "f: PUSHB 3\nSETL 0\nCALL g 0\nRET\ng: PUSHB 8\nPUSHB 8\nPUSHB 77\nTHROW", "77506", 0)

    def test_handlers_of_a_frame_go_with_it(self):
        self.ends("CALL f 0\nDROP\nx: DROP\nf: TRY h\nTRY h\nPUSHB 1\nRET\nh: PUSHB 9\nHALT", "", 71, "stack-underflow x")
        self.ends("TRY a\nCALL f 0\nDROP\nDROP\na: PUSHB 3\nHALT\nf: TRY h\nPUSHB 1\nRET\nh: PUSHB 9\nHALT", "", 3)

    def test_endtry_of_another_frame(self):
        self.ends("TRY h\nCALL f 0\nf: ENDTRY\nh: PUTI\nPUSHB 0\nHALT", "76", 0)
        self.ends("TRY h\nCALL f 0\nDROP\nENDTRY\nx: DROP\nf: TRY h\nENDTRY\nPUSHB 1\nRET\nh: PUSHB 9\nHALT", "", 71, "stack-underflow x")

    def test_sixty_four_handlers(self):
        self.ends("TRY h\n" * 64 + "PUSHB 2\nHALT\nh: PUSHB 1\nHALT", "", 2)
        self.ends("TRY h\n" * 65 + "PUSHB 2\nHALT\nh: PUTI\nPUSHB 1\nHALT", "76", 1)

    def test_too_deep_recursion_is_caught(self):
        self.ends("TRY h\nCALL f 0\nf: CALL f 0\nh: PUTI\nCALL g 0\nPUTI\nPUSHB 0\nHALT\ng: PUSHB 5\nRET", "765", 0)

    def test_step_limit_is_not_caught(self):
        self.ends("TRY h\nx: JMP x\nh: PUSHB 1\nHALT", "", 78, "step-limit x", limit=500)

    def test_failing_instructions_count(self):
        self.ends("TRY h\nDROP\nh: COUNT\nPUTI\nPUSHB 0\nHALT", "3", 0)

    def test_failed_getc_reads_nothing(self):
        self.ends("PUSHB 1\n" * 1023 + "TRY h\nPUSHB 1\nGETC\nh: DROP\nGETC\nPUTC\nPUSHB 0\nHALT", "Q", 0, source=b"Q")


class Speed(Case):
    def test_fifty_million_instructions(self):
        code, _ = assemble("PUSH 0\nSETL 0\nl: GETL 0\nPUSHB 1\nADD\nDUP\nSETL 0\nPUSH 6250000\nLT\nJNZ l\nGETL 0\nPUTI\nCOUNT\nPUTI\nPUSHB 0\nHALT")
        started = time.monotonic()
        self.assertEqual(self.start(image(code), "-s", "60000000", timeout=20), (b"6250000" b"50000005", "", 0))
        self.assertLess(time.monotonic() - started, 5)

    def test_limit_beyond_32_bits(self):
        self.assertEqual(self.start(image(b"\x02\x01\x90"), "-s", "4294967296"), (b"", "", 1))


class Random(Case):
    """Programs made at random, compared with another machine."""

    def compare(self, code, data, memory, source, limit):
        what = "code %s data %s memory %d limit %d" % (code.hex(), data.hex(), memory, limit)
        self.case(what, image(code, data, memory), limit, source, Machine(code, data, memory, 0, source, limit).run())

    def test_random_bytes(self):
        rnd = Lcg(99)
        codes = [code for code, _ in OPS.values()]
        for _ in range(60):
            size = 30 + rnd(120)
            start, _ = assemble("".join("PUSHB %d\n" % (rnd(40) - 4) for _ in range(rnd(20))) + "".join("TRY %d\n" % rnd(size) for _ in range(rnd(12))))
            code = start + bytes(codes[rnd(len(codes))] if rnd(3) else rnd(24) for _ in range(size))
            self.compare(code, b"", rnd(40), b"input", 1500)

    def test_random_programs(self):
        rnd = Lcg(2024)
        names = list(OPS)
        special = [0, 1, -1, 2, 31, 32, 255, 256, 0x7FFFFFFF, -0x80000000, -0x7FFFFFFF, 65536]
        for _ in range(140):
            size = 20 + rnd(60)
            lines = ["PUSH %d" % (special[rnd(len(special))] if rnd(3) == 0 else rnd(40)) for _ in range(rnd(30))]
            lines += ["TRY L%d" % rnd(size) for _ in range(rnd(10))]
            for i in range(size):
                kind = rnd(20)
                name = names[rnd(len(names))]
                if name == "HALT" and rnd(4):
                    name = "COUNT"
                if kind < 5:
                    value = special[rnd(len(special))] if rnd(2) else rnd(64) - 8
                    text = "PUSH %d" % value
                elif kind < 8:
                    text = "TRY L%d" % rnd(size)
                elif kind == 8:
                    text = "PUSH L%d" % rnd(size)
                else:
                    words = []
                    for k in OPS[name][1]:
                        if k == "w":
                            words.append("L%d" % rnd(size) if rnd(25) else "99999")
                        else:
                            words.append(str(rnd(4) if rnd(12) else rnd(256)))
                    text = " ".join([name] + words)
                lines.append("L%d: %s" % (i, text))
                if rnd(5) == 0:
                    lines.append("PUTI")
            code, _ = assemble("\n".join(lines))
            data = bytes(rnd(256) for _ in range(rnd(20)))
            self.compare(code, data, len(data) + rnd(30), bytes(rnd(256) for _ in range(rnd(6))), 1500)


if __name__ == "__main__":
    unittest.main()
