#!/bin/sh
# Tries a machine for well-behaved programs: right results, but next to no checks and no handlers.
cat >/app/vm.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint8_t img[1 << 22], mem[1 << 21];
static uint32_t st[4096], loc[300][16], ret[300], base[300];
static uint32_t rd(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static void fail(const char *n, uint32_t pc, int s) { fflush(stdout); fprintf(stderr, "error: %s at %u\n", n, pc); exit(s); }
int main(int argc, char **argv)
{
    uint64_t limit = 1000000000, n = 0;
    FILE *f;
    size_t got;
    uint32_t C, D, pc, sp = 8, fr = 0, a, b;
    uint8_t *code;
    if (argc == 4 && !strcmp(argv[1], "-s"))
        limit = strtoull(argv[2], 0, 10);
    else if (argc != 2)
        return fputs("usage\n", stderr), 64;
    f = fopen(argv[argc - 1], "rb");
    if (!f)
        return fputs("cannot open\n", stderr), 66;
    got = fread(img, 1, sizeof img, f);
    C = rd(img + 4), D = rd(img + 8), pc = rd(img + 16);
    if (got < 20 || memcmp(img, "SBC1", 4) || got != 20ull + C + D || pc >= C || D > rd(img + 12))
        return fputs("bad image\n", stderr), 65;
    code = img + 20;
    memcpy(mem, code + C, D);
    for (;;) {
        uint32_t at = pc, w;
        if (n++ >= limit)
            fail("step-limit", at, 78);
        if (pc >= C)
            fail("bad-jump", at, 75);
        w = rd(code + pc + 1);
        a = st[sp - 2], b = st[sp - 1];
        switch (code[pc++]) {
        case 0x00: break;
        case 0x01: st[sp++] = w; pc += 4; break;
        case 0x02: st[sp++] = (uint32_t)(int8_t)w; pc++; break;
        case 0x03: sp--; break;
        case 0x04: st[sp++] = b; break;
        case 0x05: st[sp - 2] = b; st[sp - 1] = a; break;
        case 0x06: st[sp++] = a; break;
        case 0x07: st[sp] = st[sp - 1 - (w & 255)]; sp++; pc++; break;
        case 0x10: st[--sp - 1] = a + b; break;
        case 0x11: st[--sp - 1] = a - b; break;
        case 0x12: st[--sp - 1] = a * b; break;
        case 0x13: if (!b) fail("divide-by-zero", at, 74); st[--sp - 1] = (uint32_t)((int32_t)a / (int32_t)b); break;
        case 0x14: if (!b) fail("divide-by-zero", at, 74); st[--sp - 1] = (uint32_t)((int32_t)a % (int32_t)b); break;
        case 0x15: if (!b) fail("divide-by-zero", at, 74); st[--sp - 1] = a / b; break;
        case 0x16: if (!b) fail("divide-by-zero", at, 74); st[--sp - 1] = a % b; break;
        case 0x17: st[sp - 1] = -b; break;
        case 0x20: st[--sp - 1] = a & b; break;
        case 0x21: st[--sp - 1] = a | b; break;
        case 0x22: st[--sp - 1] = a ^ b; break;
        case 0x23: st[sp - 1] = ~b; break;
        case 0x24: st[--sp - 1] = a << (b & 31); break;
        case 0x25: st[--sp - 1] = (uint32_t)((int32_t)a >> (b & 31)); break;
        case 0x26: st[--sp - 1] = a >> (b & 31); break;
        case 0x30: st[--sp - 1] = a == b; break;
        case 0x31: st[--sp - 1] = a != b; break;
        case 0x32: st[--sp - 1] = (int32_t)a < (int32_t)b; break;
        case 0x33: st[--sp - 1] = (int32_t)a <= (int32_t)b; break;
        case 0x34: st[--sp - 1] = a < b; break;
        case 0x35: st[--sp - 1] = a <= b; break;
        case 0x40: pc = w; break;
        case 0x41: sp--; pc = b ? pc + 4 : w; break;
        case 0x42: sp--; pc = b ? w : pc + 4; break;
        case 0x43: sp--; pc = b; break;
        case 0x50: case 0x51: {
            uint32_t u = code[at] == 0x50 ? code[pc + 4] : w & 255, to = code[at] == 0x50 ? w : st[--sp];
            ret[++fr] = pc + (code[at] == 0x50 ? 5 : 1);
            memset(loc[fr], 0, sizeof loc[fr]);
            memcpy(loc[fr], st + sp - u, 4 * u);
            sp -= u; base[fr] = sp; pc = to;
            break;
        }
        case 0x52: sp = base[fr]; st[sp++] = b; pc = ret[fr--]; break;
        case 0x53: st[sp++] = loc[fr][w & 15]; pc++; break;
        case 0x54: loc[fr][w & 15] = st[--sp]; pc++; break;
        case 0x60: st[sp - 1] = mem[b & 0x1fffff]; break;
        case 0x61: st[sp - 1] = (uint32_t)(int8_t)mem[b & 0x1fffff]; break;
        case 0x62: st[sp - 1] = rd(mem + (b & 0xfffff)); break;
        case 0x63: sp -= 2; mem[a & 0x1fffff] = (uint8_t)b; break;
        case 0x64: sp -= 2; memcpy(mem + (a & 0xfffff), &b, 4); break;
        case 0x65: sp -= 3; memmove(mem + st[sp], mem + a, b & 0xfffff); break;
        case 0x70: sp--; putchar((int)(b & 255)); break;
        case 0x71: sp--; printf("%d", (int32_t)b); break;
        case 0x72: st[sp++] = (uint32_t)getchar(); break;
        case 0x73: sp -= 2; fwrite(mem + (a & 0xfffff), 1, b & 0xfffff, stdout); break;
        case 0x80: pc += 4; break;
        case 0x81: break;
        case 0x82: fflush(stdout); fprintf(stderr, "error: thrown %d at %u\n", (int32_t)b, at); return 79;
        case 0x90: fflush(stdout); return (int)(b & 63);
        case 0x91: st[sp++] = (uint32_t)n; break;
        default: fail("bad-opcode", at, 70);
        }
    }
}
C
