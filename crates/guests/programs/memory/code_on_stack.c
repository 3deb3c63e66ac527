// Code that a program writes on its own stack and runs there: new code at the same place in each
// call, in frames of different depth, rewritten between two calls and by itself, on the stacks
// of two threads at once, and on the other thread's stack.
// flags: -O1 -pthread -D_GNU_SOURCE -z execstack
// variants: threaded
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "answer.h"
#include "expect.h"

enum { ROUNDS = 200, STACK = 256 << 10 };

static unsigned char *_Atomic others_code;
static atomic_int turn;

// The compiler does not know that to call an array is to read it.
static int call_written(unsigned char *code) {
    __asm__ volatile("" : "+r"(code)::"memory");
    return call(code);
}

static __attribute__((noinline)) int run_on_stack(int number) {
    unsigned char code[32];
    write_answer(code, number);
    return call_written(code);
}

static __attribute__((noinline)) int run_rewritten(int number) {
    unsigned char code[32];
    int sum = 0;
    for (int i = 0; i < 4; i++) {
        write_answer(code, number + i);
        sum += call_written(code);
    }
    return sum;
}

// movl $number, 1(%rip); mov $0, %eax; ret: it writes the number that it returns.
static __attribute__((noinline)) int run_self_rewriting(int number) {
    unsigned char code[] = {0xc7, 0x05, 1, 0, 0, 0, 0, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + 6, &number, 4);
    return call_written(code);
}

static __attribute__((noinline)) int deeper(int level, int number) {
    volatile char frame[64];
    frame[0] = (char)level;
    return level == 0 ? run_on_stack(number) : deeper(level - 1, number) + frame[0] - (char)level;
}

static void run_all(int seed) {
    for (int round = 0; round < ROUNDS; round++) {
        int number = seed + round;
        EXPECT(run_on_stack(number) == number);
        EXPECT(run_rewritten(number) == 4 * number + 6);
        EXPECT(run_self_rewriting(number) == number);
        EXPECT(deeper(round % 7, number) == number);
    }
}

static void *run_in_thread(void *seed) {
    run_all((int)(intptr_t)seed);
    return NULL;
}

// One thread's code lies on its stack; the other runs it, and both rewrite it in turn.
static void *lend_code(void *argument) {
    unsigned char code[32];
    others_code = code;
    for (int round = 0; round < ROUNDS; round += 2) {
        write_answer(code, round);
        atomic_store(&turn, 1);
        while (atomic_load(&turn) != 0)
            ;
        EXPECT(call_written(code) == round + 1);
    }
    atomic_store(&turn, 2);
    while (atomic_load(&turn) != 0)
        ;
    return argument;
}

static pthread_t start(void *(*body)(void *), void *argument, char *stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstack(&attributes, stack, STACK) == 0);
    EXPECT(pthread_create(&thread, &attributes, body, argument) == 0);
    EXPECT(pthread_attr_destroy(&attributes) == 0);
    return thread;
}

static char *executable_stack(void) {
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    EXPECT(stack != MAP_FAILED);
    return stack;
}

int main(void) {
    run_all(1000);
    char *stacks[2] = {executable_stack(), executable_stack()};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start(run_in_thread, (void *)(intptr_t)(10000 * (i + 1)), stacks[i]);
    run_all(50000);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);

    pthread_t lender = start(lend_code, NULL, stacks[0]);
    for (int expected = 0;; expected += 2) {
        int now;
        while ((now = atomic_load(&turn)) == 0)
            ;
        if (now == 2)
            break;
        EXPECT(call_written(others_code) == expected);
        write_answer(others_code, expected + 1);
        atomic_store(&turn, 0);
    }
    atomic_store(&turn, 0);
    EXPECT(pthread_join(lender, NULL) == 0);
    puts("run on the stack");
    return 0;
}
