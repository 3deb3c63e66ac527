// POSIX timers that call a function on a thread of its own, and one that signals a thread.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "expect.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static atomic_int calls, signals, wrong_thread;
static pid_t chosen;

static void call(union sigval value) {
    atomic_fetch_add(&calls, value.sival_int);
}

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&signals, 1);
    if (gettid() != chosen)
        atomic_fetch_add(&wrong_thread, 1);
}

int main(void) {
    timer_t thread_timer, signal_timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 1};
    event.sigev_notify_function = call;
    struct itimerspec every = {{0, 2000000}, {0, 2000000}};
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &thread_timer) == 0);

    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGRTMIN + 3, &action, NULL);
    chosen = gettid();
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN + 3;
    event.sigev_notify_thread_id = chosen;
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &signal_timer) == 0);

    timer_settime(thread_timer, 0, &every, NULL);
    timer_settime(signal_timer, 0, &every, NULL);
    while (atomic_load(&calls) < 20 || atomic_load(&signals) < 20)
        usleep(1000);
    timer_delete(thread_timer);
    timer_delete(signal_timer);
    EXPECT(atomic_load(&wrong_thread) == 0);
    puts("both kinds came");
    return 0;
}
