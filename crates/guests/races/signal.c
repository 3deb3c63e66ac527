// A thread sends another one a signal, whose handler reads what was written before.
#include "twin.h"
#include <signal.h>
static pthread_t target;
static _Atomic int is_known, was_handled;
long value, copy;
static void handler(int signal) {
    (void)signal;
    copy = value; // race: value
    was_handled = 1;
}
static void work(long number) {
    if (number == 0) {
        target = pthread_self();
        is_known = 1;
        while (!was_handled)
            sched_yield();
    } else {
        while (!is_known)
            sched_yield();
        UNLESS_RACY(value = 42;)
        pthread_kill(target, SIGUSR1);
        IF_RACY(value = 42;) // race: value
        KEEP;
    }
}
int main(void) {
    signal(SIGUSR1, handler);
    run_threads();
    return value != 42;
}
