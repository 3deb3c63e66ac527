// Spends known shares of its CPU time on known call paths, beside a SIGPROF timer of its own.
// flags: -O2 -fomit-frame-pointer -pthread
// variants: static stripped

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "profile/burn.h"

static volatile sig_atomic_t ticks;
static volatile double kept;

// What follows each call keeps it from being a tail call.
APART double left(double seconds) {
    return burn(seconds) + 1;
}

APART double right(double seconds) {
    return burn(seconds) + 2;
}

APART double descend(int depth, double seconds) {
    return depth == 0 ? burn(seconds) + 3 : descend(depth - 1, seconds) + depth;
}

static void on_profiling_timer(int signal) {
    (void)signal;
    ticks++;
}

APART void on_signal(int signal) {
    kept = burn(signal == SIGUSR1 ? 0.2 : 0);
}

static void *other_thread(void *unused) {
    kept = burn(0.2);
    return unused;
}

// By an argument, left and right are exchanged, or it kills itself after left.
int main(int count, char **arguments) {
    int exchanged = count > 1 && strcmp(arguments[1], "exchanged") == 0;
    signal(SIGPROF, on_profiling_timer);
    signal(SIGUSR1, on_signal);
    struct itimerval every = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_PROF, &every, NULL);

    double value = left(exchanged ? 0.18 : 0.42);
    if (count > 1 && strcmp(arguments[1], "killed") == 0)
        raise(SIGKILL);
    value += right(exchanged ? 0.42 : 0.18);
    value += descend(40, 0.2);
    raise(SIGUSR1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_thread, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    return value > 0 && ticks > 0 ? 0 : 2;
}
