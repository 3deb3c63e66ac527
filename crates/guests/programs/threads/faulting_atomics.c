// Atomic instructions that fault, on pages that are not there or may not be written, while
// other threads use atomics in the same lines' neighbourhood: nobody waits for whoever faulted.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "expect.h"

enum { OTHERS = 3, ROUNDS = 300, PAGES = 4 };

static _Thread_local sigjmp_buf escape;
static _Thread_local volatile int repairs;
static char *pages;
static atomic_long counts[PAGES * 512];
static atomic_int stop;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    EXPECT(signal == SIGSEGV && (char *)information->si_addr >= pages &&
           (char *)information->si_addr < pages + PAGES * 4096);
    if (repairs) {
        EXPECT(mprotect(pages, PAGES * 4096, PROT_READ | PROT_WRITE) == 0);
        return;
    }
    siglongjmp(escape, 1);
}

static void *others(void *argument) {
    long own = 0;
    while (!atomic_load(&stop))
        for (int i = 0; i < PAGES * 512; i++, own++)
            atomic_fetch_add(&counts[i], 1);
    *(long *)argument = own;
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    pages = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
    pthread_t threads[OTHERS];
    static long own[OTHERS];
    for (int i = 0; i < OTHERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, others, &own[i]) == 0);
    int faults = 0;
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT(mprotect(pages, PAGES * 4096, round % 2 ? PROT_NONE : PROT_READ) == 0);
        long *word = (long *)(pages + round * 40 % (PAGES * 4096));
        if (sigsetjmp(escape, 1) == 0) {
            switch (round % 4) {
            case 0: __asm__ volatile("lock addq $1, (%0)" ::"r"(word) : "memory"); break;
            case 1: __asm__ volatile("lock cmpxchg16b (%0)" ::"r"((uintptr_t)word & -16) : "memory", "rax", "rdx"); break;
            case 2: __asm__ volatile("xchg %%rax, (%0)" ::"r"(word) : "memory", "rax"); break;
            default: __asm__ volatile("lock btsq $100, (%0)" ::"r"(word) : "memory"); break;
            }
            EXPECT(!"it must fault");
        }
        faults++;
    }
    // Repaired: the instruction is made again, and done once.
    repairs = 1;
    for (int round = 0; round < 100; round++) {
        EXPECT(mprotect(pages, PAGES * 4096, PROT_NONE) == 0);
        __asm__ volatile("lock addq $1, (%0)" ::"r"(pages) : "memory");
    }
    EXPECT(*(long *)pages == 100);
    atomic_store(&stop, 1);
    long sum = 0, all = 0;
    for (int i = 0; i < OTHERS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
        all += own[i];
    }
    for (int i = 0; i < PAGES * 512; i++)
        sum += atomic_load(&counts[i]);
    EXPECT(sum == all);
    printf("%d faults\n", faults);
    return 0;
}
