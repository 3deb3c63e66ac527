// Repeated string instructions over megabytes, upwards and downwards, while a timer interrupts
// them and another thread touches the same memory: what a handler sees in their middle adds up,
// and they do what they should.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "expect.h"

#define SIZE (2ul << 20)
#define ROUNDS 2

// fill(to, bytes, byte); fill_words(to, words, word); copy(to, from, words) and copy_down, from the last word on;
// find(in, bytes, byte) gives the place behind; alike(one, other, bytes) gives what is left.
__asm__(".text\n"
        "fill: mov %rsi, %rcx\n mov %edx, %eax\n"
        "fill_at: rep stosb\n ret\n"
        "fill_words: mov %rsi, %rcx\n mov %rdx, %rax\n"
        "fill_words_at: rep stosq\n ret\n"
        "copy: mov %rdx, %rcx\n"
        "copy_at: rep movsq\n ret\n"
        "copy_down: mov %rdx, %rcx\n std\n"
        "copy_down_at: rep movsq\n cld\n ret\n"
        "find: mov %rsi, %rcx\n mov %edx, %eax\n"
        "find_at: repne scasb\n mov %rdi, %rax\n ret\n"
        "alike: mov %rdx, %rcx\n cmp %eax, %eax\n"
        "alike_at: repe cmpsb\n mov %rcx, %rax\n ret\n");

void fill(char *to, size_t bytes, int byte);
void fill_words(char *to, size_t words, long word);
void copy(long *to, const long *from, size_t words);
void copy_down(long *to, const long *from, size_t words);
char *find(const char *in, size_t bytes, int byte);
size_t alike(const char *one, const char *other, size_t bytes);
extern char fill_at[], fill_words_at[], copy_at[], copy_down_at[], find_at[], alike_at[];

// What is being executed: where its destination began, and how many rounds it has.
static volatile size_t all;
static char *volatile start;
static volatile int seen_inside;
static atomic_int done;

static void interrupted(int signal, siginfo_t *information, void *context) {
    (void)signal, (void)information;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *pc = (char *)registers[REG_RIP];
    long step;
    if (pc == fill_at || pc == find_at || pc == alike_at)
        step = 1;
    else if (pc == copy_at || pc == fill_words_at)
        step = 8;
    else if (pc == copy_down_at)
        step = -8;
    else
        return;
    size_t rounds = (size_t)(((char *)registers[REG_RDI] - start) / step);
    EXPECT(rounds + (size_t)registers[REG_RCX] == all);
    seen_inside += rounds != 0 && rounds != all;
}

static void *touch(void *memory) {
    volatile char *bytes = memory;
    size_t sum = 0;
    while (!atomic_load(&done))
        for (size_t at = 0; at < SIZE; at += 100000)
            sum += bytes[at];
    return (void *)(sum & 1);
}

static void begin(void *at, size_t rounds) {
    start = at;
    all = rounds;
}

static void work(char *one, char *other) {
    size_t words = SIZE / 8;
    begin(one, SIZE);
    fill(one, SIZE, 'a');
    EXPECT(one[0] == 'a' && one[SIZE - 1] == 'a' && one[SIZE / 2] == 'a' && one[SIZE] == 0);

    begin(other, words);
    copy((long *)other, (long *)one, words);
    EXPECT(memcmp(one, other, SIZE) == 0);

    // By one word: only from the end on does nothing get lost.
    other[0] = 'b';
    begin(other + SIZE - 8, words - 1);
    copy_down((long *)(other + SIZE - 8), (long *)(other + SIZE - 16), words - 1);
    EXPECT(other[0] == 'b' && other[8] == 'b' && other[16] == 'a' && other[SIZE - 8] == 'a');

    one[SIZE - 7] = 'x';
    begin(one, SIZE);
    EXPECT(find(one, SIZE, 'x') == one + SIZE - 6);
    one[70000] = 'x';
    begin(one, SIZE);
    EXPECT(find(one, SIZE, 'x') == one + 70001);
    // The last byte of a piece of 64 KiB, and the first of the next.
    one[65535] = 'y';
    begin(one, SIZE);
    EXPECT(find(one, SIZE, 'y') == one + 65536);
    one[65536] = 'z';
    begin(one, SIZE);
    EXPECT(find(one, SIZE, 'z') == one + 65537);
    begin(one, SIZE);
    EXPECT(find(one, SIZE, '!') == one + SIZE);

    begin(other, words);
    copy((long *)other, (long *)one, words);
    begin(one, SIZE);
    EXPECT(alike(one, other, SIZE) == 0);
    other[SIZE - 100]++;
    EXPECT(alike(one, other, SIZE) == 99);
    begin(one, 0);
    EXPECT(alike(one, other, 0) == 0);
    begin(one, SIZE);
    fill(one, SIZE, 0);
}

int main(void) {
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(NULL, 4 * SIZE, protection, flags, -1, 0);
    EXPECT(memory != MAP_FAILED);
    char *one = memory + 24, *other = memory + 2 * SIZE + 56;
    work(one, other);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, touch, one) == 0);
    struct sigaction action = {.sa_sigaction = interrupted, .sa_flags = SA_SIGINFO | SA_RESTART};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < ROUNDS || (seen_inside == 0 && round < 1000); round++)
        work(one, other);
    EXPECT(seen_inside != 0);
    // So much that the timer is faster than a look at each of its lines.
    size_t most = 64ul << 20;
    char *much = mmap(NULL, most, protection, flags, -1, 0);
    EXPECT(much != MAP_FAILED);
    begin(much, most / 8);
    fill_words(much, most / 8, 0x0101010101010101);
    EXPECT(much[0] == 1 && much[most - 1] == 1 && munmap(much, most) == 0);
    struct itimerval never = {{0, 0}, {0, 0}};
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    atomic_store(&done, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("long strings");
    return 0;
}
