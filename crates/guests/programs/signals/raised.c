// Says which signals come, to which thread, with what: natively none, but an observer may raise some
// when `point` is called.
// flags: -O1 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

static pthread_t first;
static volatile int came, is_ready;

__attribute__((noinline, noipa)) void point(long number)
{
    __asm__ volatile("" : : "r"(number) : "memory");
}

static void handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    int is_first = pthread_equal(first, pthread_self());
    int is_fault = info->si_code > 0;
    printf("signal %d code %d with %lx in the %s thread\n", number, info->si_code,
           is_fault ? (long)info->si_addr : (long)info->si_ptr, is_first ? "first" : "second");
    came++;
}

static void *waits(void *unused)
{
    is_ready = 1;
    for (int rounds = 0; rounds < 300 && came < 3; rounds++)
        usleep(1000);
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    pthread_t second;
    first = pthread_self();
    sigaction(SIGUSR2, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 2; i++) {
        int before = came;
        point(i);
        printf("%d came at point %d\n", came - before, i);
    }
    EXPECT(pthread_create(&second, 0, waits, 0) == 0);
    while (!is_ready)
        usleep(100);
    point(2);
    EXPECT(pthread_join(second, 0) == 0);
    printf("%d came\n", came);
    return 0;
}
