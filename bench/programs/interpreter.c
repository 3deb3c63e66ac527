/* A register machine interpreted by a switch, which compiles to a jump table: one indirect
 * jump with many targets. It runs a sieve of Eratosthenes. Argument: number of sieves. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum operation { LOAD, MOVE, ADD, ADD_IMMEDIATE, MULTIPLY, STORE_BYTE, LOAD_BYTE,
                 JUMP, JUMP_IF_ZERO, JUMP_IF_LESS, XOR, HALT };

struct instruction {
    uint8_t operation, a, b, c;
    int32_t immediate;
};

enum { LIMIT = 200000 };

/* r0 = candidate, r1 = limit, r2 = multiple, r3 = flag, r4 = count, r5 = one, r6 = square */
static const struct instruction program[] = {
    /*  0 */ { LOAD, 0, 0, 0, 2 },
    /*  1 */ { LOAD, 1, 0, 0, LIMIT },
    /*  2 */ { LOAD, 4, 0, 0, 0 },
    /*  3 */ { LOAD, 5, 0, 0, 1 },
    /*  4 */ { LOAD_BYTE, 3, 0, 0, 0 },
    /*  5 */ { JUMP_IF_ZERO, 3, 0, 0, 7 },
    /*  6 */ { JUMP, 0, 0, 0, 14 },
    /*  7 */ { ADD_IMMEDIATE, 4, 4, 0, 1 },
    /*  8 */ { XOR, 7, 7, 0, 0 },
    /*  9 */ { MULTIPLY, 6, 0, 0, 0 },
    /* 10 */ { MOVE, 2, 6, 0, 0 },
    /* 11 */ { JUMP_IF_LESS, 1, 2, 0, 14 },
    /* 12 */ { STORE_BYTE, 5, 2, 0, 0 },
    /* 13 */ { ADD, 2, 2, 0, 11 },
    /* 14 */ { ADD_IMMEDIATE, 0, 0, 0, 1 },
    /* 15 */ { JUMP_IF_LESS, 0, 1, 0, 4 },
    /* 16 */ { HALT, 0, 0, 0, 0 },
};

static uint8_t memory[LIMIT + 1];

static uint64_t interpret(const struct instruction *code)
{
    int64_t registers[8] = { 0 };
    const struct instruction *next = code;
    for (;;) {
        const struct instruction now = *next++;
        int64_t *a = &registers[now.a], *b = &registers[now.b], *c = &registers[now.c];
        switch (now.operation) {
        case LOAD: *a = now.immediate; break;
        case MOVE: *a = *b; break;
        /* A target in the immediate makes a loop of it. */
        case ADD: *a = *b + *c; if (now.immediate) next = code + now.immediate; break;
        case ADD_IMMEDIATE: *a = *b + now.immediate; break;
        case MULTIPLY: *a = *b * *c; break;
        case STORE_BYTE: memory[*b] = *a; break;
        case LOAD_BYTE: *a = memory[*b]; break;
        case JUMP: next = code + now.immediate; break;
        case JUMP_IF_ZERO: if (*a == 0) next = code + now.immediate; break;
        case JUMP_IF_LESS: if (*a < *b) next = code + now.immediate; break;
        case XOR: *a ^= *b ^ registers[0]; break;
        case HALT: return registers[4] * 1000003u + registers[7];
        }
    }
}

int main(int argc, char **argv)
{
    int sieves = argc > 1 ? atoi(argv[1]) : 1;
    uint64_t sum = 0;
    for (int sieve = 0; sieve < sieves; sieve++) {
        for (int i = 0; i <= LIMIT; i++)
            memory[i] = 0;
        sum = sum * 31 + interpret(program);
    }
    printf("interpreter %d %016llx\n", sieves, (unsigned long long)sum);
    return 0;
}
