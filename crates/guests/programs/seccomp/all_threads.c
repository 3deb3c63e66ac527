// A filter for all threads at once, those that are being made meanwhile included; where one has
// a filter that the others do not have, it is named and nothing changes.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "filters.h"

#define THREADS 4
static atomic_int ready, step, forbidden, made;

#define IS_FORBIDDEN(number) (syscall(number) == -1 && errno == EPROTO)

static void *looks(void *nothing) {
    ready++;
    while (step == 0)
        sched_yield();
    forbidden += IS_FORBIDDEN(SYS_getppid);
    while (step == 1)
        sched_yield();
    return nothing;
}

static void *nothing_more(void *nothing) { return nothing; }

// Made by threads that nobody told: a child made after the filter is under it.
static void *makes_threads(void *unused) {
    while (step < 3) {
        int after = step == 2;
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, nothing_more, NULL) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        made++;
        if (after)
            EXPECT(IS_FORBIDDEN(SYS_getuid));
    }
    return unused;
}

static atomic_int alien;
static void *installs_its_own(void *unused) {
    FILTER(own, RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&own, 0) == 0);
    alien = (int)syscall(SYS_gettid);
    while (step < 4)
        sched_yield();
    return unused;
}

int main(void) {
    pthread_t threads[THREADS], maker, other;
    FILTER(first, LOAD(nr), IF(SYS_getppid, SECCOMP_RET_ERRNO | EPROTO),
           RETURN(SECCOMP_RET_ALLOW));
    FILTER(second, LOAD(nr), IF(SYS_getuid, SECCOMP_RET_ERRNO | EPROTO),
           RETURN(SECCOMP_RET_ALLOW));
    for (int at = 0; at < THREADS; at++)
        EXPECT(pthread_create(&threads[at], NULL, looks, NULL) == 0);
    while (ready < THREADS)
        sched_yield();
    EXPECT(install(&first, SECCOMP_FILTER_FLAG_TSYNC) == 0);
    step = 1;
    while (forbidden < THREADS)
        sched_yield();
    EXPECT(pthread_create(&maker, NULL, makes_threads, NULL) == 0);
    while (made < 20)
        sched_yield();
    EXPECT(install(&second, SECCOMP_FILTER_FLAG_TSYNC) == 0);
    step = 2;
    int seen = made;
    while (made < seen + 20)
        sched_yield();
    step = 3;
    EXPECT(pthread_join(maker, NULL) == 0);
    for (int at = 0; at < THREADS; at++)
        EXPECT(pthread_join(threads[at], NULL) == 0);

    FILTER(third, LOAD(nr), IF(SYS_getgid, SECCOMP_RET_ERRNO | EPROTO), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(pthread_create(&other, NULL, installs_its_own, NULL) == 0);
    while (alien == 0)
        sched_yield();
    EXPECT(install(&third, SECCOMP_FILTER_FLAG_TSYNC) == alien);
    EXPECT(install(&third, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH) == -1 &&
           errno == ESRCH);
    EXPECT(!IS_FORBIDDEN(SYS_getgid));
    step = 4;
    EXPECT(pthread_join(other, NULL) == 0);
    EXPECT(install(&third, SECCOMP_FILTER_FLAG_TSYNC) == 0 && IS_FORBIDDEN(SYS_getgid));
    puts("end");
}
