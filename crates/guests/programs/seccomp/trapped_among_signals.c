// Calls that a handler carries out, calls that fail, and calls that are made, in two threads,
// while real-time signals arrive: each trap and each signal is handled once.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <ucontext.h>

#include "filters.h"

#define CALLS 3000
#define SIGNALS 1500

static atomic_int trapped, received, wrong, ended;
static _Thread_local volatile int expected;

static void carry_out(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    trapped++;
    wrong += info->si_syscall != SYS_getppid || registers[REG_RDI] != expected;
    wrong += info->si_call_addr != (void *)registers[REG_RIP];
    registers[REG_RAX] = registers[REG_RDI] * 3;
}

static void count(int signal) {
    (void)signal;
    received++;
}

static void *work(void *nothing) {
    for (int round = 1; round <= CALLS; round++) {
        expected = round;
        wrong += syscall(SYS_getppid, round) != round * 3;
        wrong += syscall(SYS_getuid) != -1 || errno != EPROTO;
        wrong += syscall(SYS_gettid) <= 0;
    }
    ended++;
    while (received < 2 * SIGNALS)
        usleep(100);
    return nothing;
}

int main(void) {
    struct sigaction on_trap = {.sa_sigaction = carry_out, .sa_flags = SA_SIGINFO};
    struct sigaction on_signal = {.sa_handler = count, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGSYS, &on_trap, NULL) == 0);
    EXPECT(sigaction(SIGRTMIN + 1, &on_signal, NULL) == 0);
    FILTER(rules, LOAD(nr), IF(SYS_getppid, SECCOMP_RET_TRAP),
           IF(SYS_getuid, SECCOMP_RET_ERRNO | EPROTO), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&rules, 0) == 0);
    pthread_t threads[2];
    for (int at = 0; at < 2; at++)
        EXPECT(pthread_create(&threads[at], NULL, work, NULL) == 0);
    union sigval value = {0};
    for (int sent = 0; sent < SIGNALS; sent++) {
        for (int at = 0; at < 2; at++)
            while (pthread_sigqueue(threads[at], SIGRTMIN + 1, value) != 0)
                usleep(100);
        if (sent % 8 == 0)
            usleep(50);
    }
    for (int at = 0; at < 2; at++)
        EXPECT(pthread_join(threads[at], NULL) == 0);
    EXPECT(wrong == 0 && trapped == 2 * CALLS && received == 2 * SIGNALS);
    puts("end");
}
