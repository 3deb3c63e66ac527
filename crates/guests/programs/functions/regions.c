// Threads call two functions whose instructions are known, in three phases, while a timer's signals
// interrupt them. The second phase is marked, by two functions of the first thread's, by what that
// registers itself as, and by each thread itself.
// flags: -O2 -pthread
// variants: static
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "expect.h"
#include "unspool.h"

#define THREADS 3
#define STEPS 300
#define PHASES 3

// 302 instructions each.
#define FUNCTION(name)                                                                \
    __asm__(".pushsection .text\n"                                                    \
            ".globl " #name "\n"                                                      \
            ".type " #name ", @function\n" #name ":\n"                                \
            "mov $100, %ecx\n"                                                        \
            ".globl " #name "_body\n" #name "_body:\n"                                \
            "1: addq $1, (%rdi)\n"                                                    \
            "dec %ecx\n"                                                              \
            "jnz 1b\n"                                                                \
            "ret\n"                                                                   \
            ".size " #name ", . - " #name "\n"                                        \
            ".popsection")
FUNCTION(step);
FUNCTION(other);

void step(volatile long *cell);
void other(volatile long *cell);

static pthread_barrier_t barrier;
static volatile sig_atomic_t ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
}

__attribute__((noinline, noipa)) void begin_all(void) {}
__attribute__((noinline, noipa)) void end_all(void) {}

static void *work(void *unused) {
    volatile long stepped = 0, others = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        pthread_barrier_wait(&barrier);
        if (phase == 1) unspool_start_region();
        for (int i = 0; i < STEPS; i++) {
            step(&stepped);
            other(&others);
        }
        if (phase == 1) unspool_end_region();
        pthread_barrier_wait(&barrier);
    }
    EXPECT(stepped == 100 * STEPS * PHASES && others == stepped);
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval interval = {{0, 300}, {0, 300}};
    pthread_t threads[THREADS];
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    EXPECT(setitimer(ITIMER_REAL, &interval, NULL) == 0);
    EXPECT(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int phase = 0; phase < PHASES; phase++) {
        if (phase == 1) begin_all();
        if (phase == 1) unspool_register_thread(1, "phase");
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        if (phase == 1) unspool_register_thread(2, "phase");
        if (phase == 1) end_all();
    }
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%d steps of each of %d threads\n", STEPS * PHASES, THREADS);
    return 0;
}
