/* An interpreter for SBC1 images; see SPEC.md. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 1024, FRAMES = 256, HANDLERS = 64, LOCALS = 16, MAX_SIZE = 1048576, HEADER = 20 };

enum error {
    NONE = 0,
    BAD_OPCODE = 70, UNDERFLOW, OVERFLOW, BAD_ADDRESS, DIVIDE, BAD_JUMP, FRAME, BAD_OPERAND, LIMIT, THROWN
};

static const char *const names[] = {
    "bad-opcode", "stack-underflow", "stack-overflow", "bad-address", "divide-by-zero",
    "bad-jump", "frame-error", "bad-operand", "step-limit", "thrown"
};

enum op {
    NOP = 0x00, PUSH, PUSHB, DROP, DUP, SWAP, OVER, PICK,
    ADD = 0x10, SUB, MUL, DIV, MOD, DIVU, MODU, NEG,
    AND = 0x20, OR, XOR, NOT, SHL, SHR, SHRU,
    EQ = 0x30, NE, LT, LE, LTU, LEU,
    JMP = 0x40, JZ, JNZ, JMPI,
    CALL = 0x50, CALLI, RET, GETL, SETL,
    LD8 = 0x60, LD8S, LD32, ST8, ST32, COPY,
    PUTC = 0x70, PUTI, GETC, PUTS,
    TRY = 0x80, ENDTRY, THROW,
    HALT = 0x90, COUNT
};

/* How an instruction looks: operand bytes, words taken off, words put on.
   Those marked late check the stack themselves, because of their order. */
struct shape { uint8_t known, operands, in, out, late; };

static const struct shape shapes[256] = {
    [NOP] = {1, 0, 0, 0, 0}, [PUSH] = {1, 4, 0, 1, 0}, [PUSHB] = {1, 1, 0, 1, 0}, [DROP] = {1, 0, 1, 0, 0},
    [DUP] = {1, 0, 1, 2, 0}, [SWAP] = {1, 0, 2, 2, 0}, [OVER] = {1, 0, 2, 3, 0}, [PICK] = {1, 1, 0, 1, 1},
    [ADD] = {1, 0, 2, 1, 0}, [SUB] = {1, 0, 2, 1, 0}, [MUL] = {1, 0, 2, 1, 0}, [DIV] = {1, 0, 2, 1, 0},
    [MOD] = {1, 0, 2, 1, 0}, [DIVU] = {1, 0, 2, 1, 0}, [MODU] = {1, 0, 2, 1, 0}, [NEG] = {1, 0, 1, 1, 0},
    [AND] = {1, 0, 2, 1, 0}, [OR] = {1, 0, 2, 1, 0}, [XOR] = {1, 0, 2, 1, 0}, [NOT] = {1, 0, 1, 1, 0},
    [SHL] = {1, 0, 2, 1, 0}, [SHR] = {1, 0, 2, 1, 0}, [SHRU] = {1, 0, 2, 1, 0},
    [EQ] = {1, 0, 2, 1, 0}, [NE] = {1, 0, 2, 1, 0}, [LT] = {1, 0, 2, 1, 0}, [LE] = {1, 0, 2, 1, 0},
    [LTU] = {1, 0, 2, 1, 0}, [LEU] = {1, 0, 2, 1, 0},
    [JMP] = {1, 4, 0, 0, 0}, [JZ] = {1, 4, 1, 0, 0}, [JNZ] = {1, 4, 1, 0, 0}, [JMPI] = {1, 0, 1, 0, 0},
    [CALL] = {1, 5, 0, 0, 1}, [CALLI] = {1, 1, 0, 0, 1}, [RET] = {1, 0, 1, 1, 1},
    [GETL] = {1, 1, 0, 1, 1}, [SETL] = {1, 1, 1, 0, 1},
    [LD8] = {1, 0, 1, 1, 0}, [LD8S] = {1, 0, 1, 1, 0}, [LD32] = {1, 0, 1, 1, 0}, [ST8] = {1, 0, 2, 0, 0},
    [ST32] = {1, 0, 2, 0, 0}, [COPY] = {1, 0, 3, 0, 0},
    [PUTC] = {1, 0, 1, 0, 0}, [PUTI] = {1, 0, 1, 0, 0}, [GETC] = {1, 0, 0, 1, 0}, [PUTS] = {1, 0, 2, 0, 0},
    [TRY] = {1, 4, 0, 0, 0}, [ENDTRY] = {1, 0, 0, 0, 0}, [THROW] = {1, 0, 1, 0, 0},
    [HALT] = {1, 0, 1, 0, 0}, [COUNT] = {1, 0, 0, 1, 0}
};

struct frame { uint32_t base, back, locals[LOCALS]; };
struct handler { uint32_t target, height; int frame; };

static struct {
    const uint8_t *code;
    uint8_t *memory;
    uint32_t size, memory_size, pc;
    uint32_t stack[STACK];
    uint32_t height;
    struct frame frames[FRAMES];
    int frame; /* number of the newest one */
    struct handler handlers[HANDLERS];
    int handler_count;
    uint64_t steps, limit;
    uint32_t thrown;
    int halted, status;
} vm;

static uint32_t get32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static int in_memory(uint32_t p, uint32_t n)
{
    return (uint64_t)p + n <= vm.memory_size;
}

static int less(uint32_t a, uint32_t b)
{
    return (a ^ 0x80000000u) < (b ^ 0x80000000u);
}

static uint32_t magnitude(uint32_t a)
{
    return a >> 31 ? 0u - a : a;
}

static enum error enter(uint32_t target, uint32_t args, uint32_t extra, uint32_t next)
{
    struct frame *f;

    if (args > LOCALS)
        return BAD_OPERAND;
    if (vm.height - vm.frames[vm.frame].base < args + extra)
        return UNDERFLOW;
    if (extra)
        target = vm.stack[vm.height - 1];
    if (target >= vm.size)
        return BAD_JUMP;
    if (vm.frame + 1 == FRAMES)
        return FRAME;
    f = &vm.frames[++vm.frame];
    memset(f, 0, sizeof *f);
    vm.height -= args + extra;
    if (args)
        memcpy(f->locals, vm.stack + vm.height, args * sizeof f->locals[0]);
    f->base = vm.height;
    f->back = next;
    vm.pc = target;
    return NONE;
}

/* Executes one instruction, or says why not. */
static enum error step(void)
{
    struct frame *f = &vm.frames[vm.frame];
    struct shape shape;
    const uint8_t *arg;
    uint32_t *top, a, b, w = 0, next, have;
    uint8_t op;
    int c;

    if (vm.pc >= vm.size)
        return BAD_JUMP;
    op = vm.code[vm.pc];
    shape = shapes[op];
    if (!shape.known || vm.size - vm.pc <= shape.operands)
        return BAD_OPCODE;
    arg = vm.code + vm.pc + 1;
    next = vm.pc + 1 + shape.operands;
    have = vm.height - f->base;
    if (!shape.late && have < shape.in)
        return UNDERFLOW;
    /* Of these, those that can overflow have no other check that would come before. */
    if (!shape.late && shape.out > shape.in && vm.height + shape.out - shape.in > STACK)
        return OVERFLOW;
    if (shape.operands >= 4)
        w = get32(arg);
    top = vm.stack + vm.height; /* just above the top word */
    a = have >= 2 ? top[-2] : 0;
    b = have >= 1 ? top[-1] : 0;

    switch ((enum op)op) {
    case NOP: break;
    case PUSH: top[0] = w; break;
    case PUSHB: top[0] = arg[0] | (arg[0] & 0x80 ? 0xffffff00u : 0u); break;
    case DROP: break;
    case DUP: top[0] = b; break;
    case SWAP: top[-2] = b; top[-1] = a; break;
    case OVER: top[0] = a; break;
    case PICK:
        if (have < arg[0] + 1u)
            return UNDERFLOW;
        if (vm.height == STACK)
            return OVERFLOW;
        top[0] = top[-1 - arg[0]];
        break;
    case ADD: top[-2] = a + b; break;
    case SUB: top[-2] = a - b; break;
    case MUL: top[-2] = a * b; break;
    case DIV:
        if (b == 0)
            return DIVIDE;
        w = magnitude(a) / magnitude(b);
        top[-2] = (a ^ b) >> 31 ? 0u - w : w;
        break;
    case MOD:
        if (b == 0)
            return DIVIDE;
        w = magnitude(a) % magnitude(b);
        top[-2] = a >> 31 ? 0u - w : w;
        break;
    case DIVU:
        if (b == 0)
            return DIVIDE;
        top[-2] = a / b;
        break;
    case MODU:
        if (b == 0)
            return DIVIDE;
        top[-2] = a % b;
        break;
    case NEG: top[-1] = 0u - b; break;
    case AND: top[-2] = a & b; break;
    case OR: top[-2] = a | b; break;
    case XOR: top[-2] = a ^ b; break;
    case NOT: top[-1] = ~b; break;
    case SHL: top[-2] = a << (b & 31); break;
    case SHR: top[-2] = a >> 31 ? ~(~a >> (b & 31)) : a >> (b & 31); break;
    case SHRU: top[-2] = a >> (b & 31); break;
    case EQ: top[-2] = a == b; break;
    case NE: top[-2] = a != b; break;
    case LT: top[-2] = (uint32_t)less(a, b); break;
    case LE: top[-2] = (uint32_t)!less(b, a); break;
    case LTU: top[-2] = a < b; break;
    case LEU: top[-2] = a <= b; break;
    case JMP:
        if (w >= vm.size)
            return BAD_JUMP;
        next = w;
        break;
    case JZ:
    case JNZ:
        if ((b == 0) == (op == JZ)) {
            if (w >= vm.size)
                return BAD_JUMP;
            next = w;
        }
        break;
    case JMPI:
        if (b >= vm.size)
            return BAD_JUMP;
        next = b;
        break;
    case CALL: return enter(w, arg[4], 0, next);
    case CALLI: return enter(0, arg[0], 1, next);
    case RET:
        if (vm.frame == 0)
            return FRAME;
        if (have < 1)
            return UNDERFLOW;
        while (vm.handler_count && vm.handlers[vm.handler_count - 1].frame == vm.frame)
            vm.handler_count--;
        vm.height = f->base;
        vm.stack[vm.height++] = b;
        vm.pc = f->back;
        vm.frame--;
        return NONE;
    case GETL:
        if (arg[0] >= LOCALS)
            return BAD_OPERAND;
        if (vm.height == STACK)
            return OVERFLOW;
        top[0] = f->locals[arg[0]];
        break;
    case SETL:
        if (arg[0] >= LOCALS)
            return BAD_OPERAND;
        if (have < 1)
            return UNDERFLOW;
        f->locals[arg[0]] = b;
        break;
    case LD8:
    case LD8S:
        if (!in_memory(b, 1))
            return BAD_ADDRESS;
        w = vm.memory[b];
        top[-1] = op == LD8S && w & 0x80 ? w | 0xffffff00u : w;
        break;
    case LD32:
        if (!in_memory(b, 4))
            return BAD_ADDRESS;
        top[-1] = get32(vm.memory + b);
        break;
    case ST8:
        if (!in_memory(a, 1))
            return BAD_ADDRESS;
        vm.memory[a] = (uint8_t)b;
        break;
    case ST32:
        if (!in_memory(a, 4))
            return BAD_ADDRESS;
        put32(vm.memory + a, b);
        break;
    case COPY:
        if (!in_memory(top[-3], b) || !in_memory(a, b))
            return BAD_ADDRESS;
        memmove(vm.memory + top[-3], vm.memory + a, b);
        break;
    case PUTC: putchar((int)(b & 255)); break;
    case PUTI: printf("%s%lu", b >> 31 ? "-" : "", (unsigned long)magnitude(b)); break;
    case GETC:
        c = getchar();
        top[0] = c == EOF ? 0xffffffffu : (uint32_t)c;
        break;
    case PUTS:
        if (!in_memory(a, b))
            return BAD_ADDRESS;
        fwrite(vm.memory + a, 1, b, stdout);
        break;
    case TRY:
        if (w >= vm.size)
            return BAD_JUMP;
        if (vm.height == STACK)
            return OVERFLOW;
        if (vm.handler_count == HANDLERS)
            return FRAME;
        vm.handlers[vm.handler_count++] = (struct handler){ w, vm.height, vm.frame };
        break;
    case ENDTRY:
        if (vm.handler_count == 0 || vm.handlers[vm.handler_count - 1].frame != vm.frame)
            return FRAME;
        vm.handler_count--;
        break;
    case THROW:
        vm.thrown = b;
        vm.height--;
        return THROWN;
    case HALT:
        vm.halted = 1;
        vm.status = (int)(b & 63);
        break;
    case COUNT: top[0] = (uint32_t)vm.steps; break;
    }
    vm.height += shape.out;
    vm.height -= shape.in;
    vm.pc = next;
    return NONE;
}

static int run(void)
{
    while (!vm.halted) {
        enum error e = LIMIT;

        if (vm.steps < vm.limit) {
            vm.steps++;
            e = step();
            if (e == NONE)
                continue;
        }
        if (e == LIMIT || vm.handler_count == 0) {
            fflush(stdout);
            fprintf(stderr, "error: %s", names[e - BAD_OPCODE]);
            if (e == THROWN)
                fprintf(stderr, " %s%lu", vm.thrown >> 31 ? "-" : "", (unsigned long)magnitude(vm.thrown));
            fprintf(stderr, " at %lu\n", (unsigned long)vm.pc);
            return e;
        }
        vm.handler_count--;
        vm.frame = vm.handlers[vm.handler_count].frame;
        if (vm.height > vm.handlers[vm.handler_count].height)
            vm.height = vm.handlers[vm.handler_count].height;
        vm.stack[vm.height++] = e == THROWN ? vm.thrown : (uint32_t)e;
        vm.pc = vm.handlers[vm.handler_count].target;
    }
    fflush(stdout);
    return vm.status;
}

static _Noreturn void quit(int status, const char *why)
{
    fprintf(stderr, "vm: %s\n", why);
    exit(status);
}

static void load(const char *path)
{
    static uint8_t image[HEADER + 2 * MAX_SIZE + 1];
    uint32_t data, entry;
    size_t n;
    FILE *file = fopen(path, "rb");

    if (!file)
        quit(66, "cannot open the image");
    n = fread(image, 1, sizeof image, file);
    if (ferror(file))
        quit(66, "cannot read the image");
    fclose(file);
    if (n < HEADER || memcmp(image, "SBC1", 4) != 0)
        quit(65, "not an image");
    vm.size = get32(image + 4);
    data = get32(image + 8);
    vm.memory_size = get32(image + 12);
    entry = get32(image + 16);
    if (vm.size < 1 || vm.size > MAX_SIZE || vm.memory_size > MAX_SIZE || data > vm.memory_size || entry >= vm.size
        || n != (size_t)HEADER + vm.size + data)
        quit(65, "bad image");
    vm.code = image + HEADER;
    vm.memory = calloc((size_t)vm.memory_size + 1, 1);
    if (!vm.memory)
        quit(66, "out of memory");
    memcpy(vm.memory, image + HEADER + vm.size, data);
    vm.pc = entry;
}

int main(int argc, char **argv)
{
    int at = 1;

    vm.limit = 1000000000;
    if (at < argc && strcmp(argv[at], "-s") == 0) {
        size_t n = at + 1 < argc ? strlen(argv[at + 1]) : 0;
        if (n < 1 || n > 18 || strspn(argv[at + 1], "0123456789") != n)
            quit(64, "bad limit");
        vm.limit = strtoull(argv[at + 1], NULL, 10);
        at += 2;
    }
    if (argc - at != 1 || argv[at][0] == '-')
        quit(64, "usage: vm [-s LIMIT] IMAGE");
    load(argv[at]);
    return run();
}
