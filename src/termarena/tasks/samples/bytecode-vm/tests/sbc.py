"""An assembler and a reference machine for SBC1, used by the tests."""
import struct

OPS = {
    "NOP": (0x00, ""), "PUSH": (0x01, "w"), "PUSHB": (0x02, "b"), "DROP": (0x03, ""), "DUP": (0x04, ""), "SWAP": (0x05, ""),
    "OVER": (0x06, ""), "PICK": (0x07, "u"), "ADD": (0x10, ""), "SUB": (0x11, ""), "MUL": (0x12, ""), "DIV": (0x13, ""),
    "MOD": (0x14, ""), "DIVU": (0x15, ""), "MODU": (0x16, ""), "NEG": (0x17, ""), "AND": (0x20, ""), "OR": (0x21, ""),
    "XOR": (0x22, ""), "NOT": (0x23, ""), "SHL": (0x24, ""), "SHR": (0x25, ""), "SHRU": (0x26, ""), "EQ": (0x30, ""),
    "NE": (0x31, ""), "LT": (0x32, ""), "LE": (0x33, ""), "LTU": (0x34, ""), "LEU": (0x35, ""), "JMP": (0x40, "w"),
    "JZ": (0x41, "w"), "JNZ": (0x42, "w"), "JMPI": (0x43, ""), "CALL": (0x50, "wu"), "CALLI": (0x51, "u"), "RET": (0x52, ""),
    "GETL": (0x53, "u"), "SETL": (0x54, "u"), "LD8": (0x60, ""), "LD8S": (0x61, ""), "LD32": (0x62, ""), "ST8": (0x63, ""),
    "ST32": (0x64, ""), "COPY": (0x65, ""), "PUTC": (0x70, ""), "PUTI": (0x71, ""), "GETC": (0x72, ""), "PUTS": (0x73, ""),
    "TRY": (0x80, "w"), "ENDTRY": (0x81, ""), "THROW": (0x82, ""), "HALT": (0x90, ""), "COUNT": (0x91, ""),
}
WIDTH = {"w": 4, "u": 1, "b": 1}
BY_CODE = {code: (name, kinds) for name, (code, kinds) in OPS.items()}
ERRORS = {"bad-opcode": 70, "stack-underflow": 71, "stack-overflow": 72, "bad-address": 73, "divide-by-zero": 74,
          "bad-jump": 75, "frame-error": 76, "bad-operand": 77, "step-limit": 78, "thrown": 79}


def assemble(source):
    """Code and labels from lines of 'label:', 'NAME operands' and '.byte N ...'; ';' starts a comment."""
    items, labels, at = [], {}, 0
    for line in source.splitlines():
        words = line.split(";")[0].split()
        while words and words[0].endswith(":"):
            labels[words.pop(0)[:-1]] = at
        if not words:
            continue
        items.append(words)
        at += len(words) - 1 if words[0] == ".byte" else 1 + sum(WIDTH[k] for k in OPS[words[0]][1])
    out = bytearray()
    for words in items:
        if words[0] == ".byte":
            out += bytes(int(w, 0) for w in words[1:])
            continue
        code, kinds = OPS[words[0]]
        assert len(words) == 1 + len(kinds), words
        out.append(code)
        for kind, word in zip(kinds, words[1:]):
            value = labels[word] if word in labels else int(word, 0)
            out += (value & (1 << 8 * WIDTH[kind]) - 1).to_bytes(WIDTH[kind], "little")
    return bytes(out), labels


def image(code, data=b"", memory=None, entry=0):
    memory = len(data) if memory is None else memory
    return b"SBC1" + struct.pack("<IIII", len(code), len(data), memory, entry) + code + data


class Failure(Exception):
    def __init__(self, name, value=None):
        self.name, self.value = name, value


def signed(word):
    return word - (1 << 32) if word >> 31 else word


class Machine:
    """A slow and plain machine; run() gives output, last line of the error output, and exit status."""

    def __init__(self, code, data, memory, entry, source, limit):
        self.code, self.pc, self.limit, self.steps = code, entry, limit, 0
        self.memory = bytearray(data) + bytearray(memory - len(data))
        self.stack, self.frames, self.handlers = [], [[0, 0, [0] * 16]], []
        self.source, self.read, self.out = source, 0, bytearray()

    def run(self):
        while True:
            try:
                if self.steps >= self.limit:
                    raise Failure("step-limit")
                self.steps += 1
                status = self.step()
                if status is not None:
                    return bytes(self.out), "", status
            except Failure as e:
                if e.name == "step-limit" or not self.handlers:
                    name = e.name if e.name != "thrown" else "thrown %d" % signed(e.value)
                    return bytes(self.out), "error: %s at %d\n" % (name, self.pc), ERRORS[e.name]
                target, depth, height = self.handlers.pop()
                del self.frames[depth:]
                del self.stack[height:]
                self.stack.append(e.value if e.name == "thrown" else ERRORS[e.name])
                self.pc = target

    def need(self, count):
        if len(self.stack) - self.frames[-1][0] < count:
            raise Failure("stack-underflow")

    def room(self):
        if len(self.stack) >= 1024:
            raise Failure("stack-overflow")

    def jump_ok(self, target):
        if target >= len(self.code):
            raise Failure("bad-jump")

    def range_ok(self, start, count):
        if start + count > len(self.memory):
            raise Failure("bad-address")

    def step(self):
        if self.pc >= len(self.code):
            raise Failure("bad-jump")
        name, kinds = BY_CODE.get(self.code[self.pc], (None, ""))
        end = self.pc + 1 + sum(WIDTH[k] for k in kinds)
        if name is None or end > len(self.code):
            raise Failure("bad-opcode")
        args, at = [], self.pc + 1
        for k in kinds:
            args.append(int.from_bytes(self.code[at:at + WIDTH[k]], "little", signed=k == "b") & 0xFFFFFFFF)
            at += WIDTH[k]
        if name in self.BINARY:
            args = [name]
        elif name in ("CALL", "CALLI"):
            args.append(end)
        act = self.binary if name in self.BINARY else getattr(self, "op_" + name)
        status, target = act(*args) or (None, None)
        self.pc = end if target is None else target
        return status

    BINARY = {
        "ADD": lambda a, b: a + b, "SUB": lambda a, b: a - b, "MUL": lambda a, b: a * b,
        "DIV": lambda a, b: abs(signed(a)) // abs(signed(b)) * (1 if (signed(a) < 0) == (signed(b) < 0) else -1),
        "MOD": lambda a, b: abs(signed(a)) % abs(signed(b)) * (-1 if signed(a) < 0 else 1),
        "DIVU": lambda a, b: a // b, "MODU": lambda a, b: a % b,
        "AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b,
        "SHL": lambda a, b: a << b % 32, "SHR": lambda a, b: signed(a) >> b % 32, "SHRU": lambda a, b: a >> b % 32,
        "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: signed(a) < signed(b),
        "LE": lambda a, b: signed(a) <= signed(b), "LTU": lambda a, b: a < b, "LEU": lambda a, b: a <= b,
    }

    def binary(self, name):
        self.need(2)
        if name in ("DIV", "MOD", "DIVU", "MODU") and self.stack[-1] == 0:
            raise Failure("divide-by-zero")
        b, a = self.stack.pop(), self.stack.pop()
        self.stack.append(int(self.BINARY[name](a, b)) & 0xFFFFFFFF)

    def push(self, value):
        self.room()
        self.stack.append(value & 0xFFFFFFFF)

    def op_NOP(self):
        pass

    def op_PUSH(self, w):
        self.push(w)

    def op_PUSHB(self, b):
        self.push(b)

    def op_DROP(self):
        self.need(1)
        self.stack.pop()

    def op_DUP(self):
        self.need(1)
        self.push(self.stack[-1])

    def op_SWAP(self):
        self.need(2)
        self.stack[-2:] = [self.stack[-1], self.stack[-2]]

    def op_OVER(self):
        self.need(2)
        self.push(self.stack[-2])

    def op_PICK(self, u):
        self.need(u + 1)
        self.push(self.stack[-1 - u])

    def op_NEG(self):
        self.need(1)
        self.stack[-1] = -self.stack[-1] & 0xFFFFFFFF

    def op_NOT(self):
        self.need(1)
        self.stack[-1] ^= 0xFFFFFFFF

    def op_JMP(self, w):
        self.jump_ok(w)
        return None, w

    def op_JZ(self, w):
        return self.conditional(w, True)

    def op_JNZ(self, w):
        return self.conditional(w, False)

    def conditional(self, w, zero):
        self.need(1)
        taken = (self.stack[-1] == 0) == zero
        if taken:
            self.jump_ok(w)
        self.stack.pop()
        return (None, w) if taken else None

    def op_JMPI(self):
        self.need(1)
        self.jump_ok(self.stack[-1])
        return None, self.stack.pop()

    def op_CALL(self, w, u, after):
        return self.enter(w, u, after)

    def op_CALLI(self, u, after):
        return self.enter(None, u, after)

    def enter(self, target, count, after):
        if count > 16:
            raise Failure("bad-operand")
        self.need(count + (target is None))
        where = self.stack[-1] if target is None else target
        self.jump_ok(where)
        if len(self.frames) == 256:
            raise Failure("frame-error")
        if target is None:
            self.stack.pop()
        base = len(self.stack) - count
        values = self.stack[base:]
        del self.stack[base:]
        self.frames.append([base, after, values + [0] * (16 - count)])
        return None, where

    def op_RET(self):
        if len(self.frames) == 1:
            raise Failure("frame-error")
        self.need(1)
        while self.handlers and self.handlers[-1][1] == len(self.frames):
            self.handlers.pop()
        base, after, _ = self.frames.pop()
        self.stack[base:] = [self.stack[-1]]
        return None, after

    def op_GETL(self, u):
        if u > 15:
            raise Failure("bad-operand")
        self.push(self.frames[-1][2][u])

    def op_SETL(self, u):
        if u > 15:
            raise Failure("bad-operand")
        self.need(1)
        self.frames[-1][2][u] = self.stack.pop()

    def op_LD8(self):
        self.load(1, False)

    def op_LD8S(self):
        self.load(1, True)

    def op_LD32(self):
        self.load(4, False)

    def load(self, count, sign):
        self.need(1)
        p = self.stack[-1]
        self.range_ok(p, count)
        self.stack[-1] = int.from_bytes(self.memory[p:p + count], "little", signed=sign) & 0xFFFFFFFF

    def op_ST8(self):
        self.store(1)

    def op_ST32(self):
        self.store(4)

    def store(self, count):
        self.need(2)
        p, a = self.stack[-2:]
        self.range_ok(p, count)
        self.memory[p:p + count] = a.to_bytes(4, "little")[:count]
        del self.stack[-2:]

    def op_COPY(self):
        self.need(3)
        p, q, n = self.stack[-3:]
        self.range_ok(p, n)
        self.range_ok(q, n)
        self.memory[p:p + n] = bytes(self.memory[q:q + n])
        del self.stack[-3:]

    def op_PUTC(self):
        self.need(1)
        self.out.append(self.stack.pop() & 255)

    def op_PUTI(self):
        self.need(1)
        self.out += b"%d" % signed(self.stack.pop())

    def op_GETC(self):
        self.room()
        at_end = self.read >= len(self.source)
        self.push(-1 if at_end else self.source[self.read])
        self.read += not at_end

    def op_PUTS(self):
        self.need(2)
        p, n = self.stack[-2:]
        self.range_ok(p, n)
        self.out += self.memory[p:p + n]
        del self.stack[-2:]

    def op_TRY(self, w):
        self.jump_ok(w)
        self.room()
        if len(self.handlers) == 64:
            raise Failure("frame-error")
        self.handlers.append((w, len(self.frames), len(self.stack)))

    def op_ENDTRY(self):
        if not self.handlers or self.handlers[-1][1] != len(self.frames):
            raise Failure("frame-error")
        self.handlers.pop()

    def op_THROW(self):
        self.need(1)
        raise Failure("thrown", self.stack.pop())

    def op_HALT(self):
        self.need(1)
        return self.stack.pop() % 64, None

    def op_COUNT(self):
        self.push(self.steps)
