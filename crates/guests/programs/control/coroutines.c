// Coroutines with makecontext and swapcontext on small stacks, and a switch of stacks in
// ten instructions of assembly, as fibre libraries do it.
// flags: -O2
// variants: threaded
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "expect.h"

enum { COROUTINES = 10, STEPS = 100, STACK = 16 * 1024 };

static ucontext_t back, contexts[COROUTINES];
static long steps[COROUTINES];

static void body(int number) {
    for (int i = 0; i < STEPS; i++) {
        steps[number] += i;
        swapcontext(&contexts[number], &back);
    }
}

void switch_stack(void **save, void *to);
__asm__(".text\n.globl switch_stack\nswitch_stack:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");

static void *main_stack, *fibre_stack;
static int fibre_count;

static void fibre(void) {
    for (;;) {
        fibre_count++;
        switch_stack(&fibre_stack, main_stack);
    }
}

int main(void) {
    static long sum;
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = malloc(STACK);
        contexts[i].uc_stack.ss_size = STACK;
        contexts[i].uc_link = &back;
        makecontext(&contexts[i], (void (*)(void))body, 1, i);
    }
    for (int step = 0; step <= STEPS; step++)
        for (int i = 0; i < COROUTINES; i++)
            swapcontext(&back, &contexts[i]);
    for (int i = 0; i < COROUTINES; i++)
        sum += steps[i];

    uint64_t *stack = (uint64_t *)((char *)aligned_alloc(16, STACK) + STACK);
    *--stack = 0;
    *--stack = (uint64_t)fibre;
    fibre_stack = stack - 6;
    for (int i = 0; i < 1000; i++)
        switch_stack(&main_stack, fibre_stack);
    printf("%ld %d\n", sum, fibre_count);
    return 0;
}
