// Calls that wait for a time that is counted from their beginning, all at once, wait as long as one
// that waits for a point in time, whoever interrupts the program meanwhile. Arguments say for how
// many milliseconds, and how often a region of interest begins meanwhile. The time for which a
// thread wants to run and others do does not count. Where even the wait for a point in time ends
// late, the guest cannot tell.
// flags: -O2 -pthread -D_GNU_SOURCE
// arguments: 600 5
// compare: status
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"
#include "unspool.h"

static long length_ms;
static struct timespec length;

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void point_in_time(void) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += length.tv_sec + (end.tv_nsec + length.tv_nsec) / 1000000000;
    end.tv_nsec = (end.tv_nsec + length.tv_nsec) % 1000000000;
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == 0);
}

static void sleeps(void) {
    // Nothing is written where the rest of the time would be: no signal of the program's comes.
    struct timespec both = length;
    EXPECT(nanosleep(&both, &both) == 0);
    EXPECT(memcmp(&both, &length, sizeof both) == 0);
}

static void sleeps_by_a_clock(void) {
    EXPECT(clock_nanosleep(CLOCK_BOOTTIME, 0, &length, NULL) == 0);
}

static void polls(void) { EXPECT(poll(NULL, 0, length_ms) == 0); }

static void polls_by_timespec(void) { EXPECT(ppoll(NULL, 0, &length, NULL) == 0); }

static void epolls(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    EXPECT(epoll_wait(set, &event, 1, length_ms) == 0);
    close(set);
}

static void epolls_with_a_mask(void) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    int set = epoll_create1(0);
    EXPECT(epoll_pwait(set, &event, 1, length_ms, &none) == 0);
    close(set);
}

static void epolls_by_timespec(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    if (syscall(441, set, &event, 1, &length, NULL, 8) != 0) {
        // An older kernel does not know it.
        EXPECT(errno == ENOSYS);
        point_in_time();
    }
    close(set);
}

static void waits_for_a_futex(void) {
    int word = 0;
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &length, NULL, 0) == -1);
    EXPECT(errno == ETIMEDOUT);
}

static void waits_for_a_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX);
    EXPECT(sigtimedwait(&set, NULL, &length) == -1 && errno == EAGAIN);
}

static void waits_for_a_semaphore(void) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    if (set < 0)
        return point_in_time();
    struct sembuf down = {.sem_num = 0, .sem_op = -1};
    EXPECT(semtimedop(set, &down, 1, &length) == -1 && errno == EAGAIN);
    semctl(set, 0, IPC_RMID);
}

static void waits_for_requests(void) {
    aio_context_t context = 0;
    struct io_event event;
    if (syscall(SYS_io_setup, 4, &context) != 0)
        return point_in_time();
    EXPECT(syscall(SYS_io_getevents, context, 1, 1, &event, &length) == 0);
    syscall(SYS_io_destroy, context);
}

static void waits_for_a_ring(void) {
    struct io_uring_params parameters = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0 || !(parameters.features & IORING_FEAT_EXT_ARG)) {
        close(ring);
        return point_in_time();
    }
    struct __kernel_timespec time = {length.tv_sec, length.tv_nsec};
    struct io_uring_getevents_arg with = {.ts = (unsigned long)&time};
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
    EXPECT(syscall(SYS_io_uring_enter, ring, 0, 1, flags, &with, sizeof with) == -1);
    EXPECT(errno == ETIME);
    close(ring);
}

static struct wait {
    const char *name;
    void (*run)(void);
    long took_us, late_us;
} waits[] = {
    {"a point in time", point_in_time, 0, 0},
    {"nanosleep", sleeps, 0, 0},
    {"clock_nanosleep", sleeps_by_a_clock, 0, 0},
    {"poll", polls, 0, 0},
    {"ppoll", polls_by_timespec, 0, 0},
    {"epoll_wait", epolls, 0, 0},
    {"epoll_pwait", epolls_with_a_mask, 0, 0},
    {"epoll_pwait2", epolls_by_timespec, 0, 0},
    {"futex", waits_for_a_futex, 0, 0},
    {"sigtimedwait", waits_for_a_signal, 0, 0},
    {"semtimedop", waits_for_a_semaphore, 0, 0},
    {"io_getevents", waits_for_requests, 0, 0},
    {"io_uring_enter", waits_for_a_ring, 0, 0},
};
enum { COUNT = sizeof waits / sizeof *waits };

// For how long this thread has waited for a processor.
static long kept_waiting_us(void) {
    unsigned long run = 0, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file) {
        if (fscanf(file, "%lu %lu", &run, &waited) != 2)
            waited = 0;
        fclose(file);
    }
    return waited / 1000;
}

static void *run(void *argument) {
    struct wait *wait = argument;
    long kept_waiting = kept_waiting_us();
    long start = now_us();
    wait->run();
    wait->took_us = now_us() - start;
    wait->late_us = wait->took_us - length_ms * 1000 - (kept_waiting_us() - kept_waiting);
    return NULL;
}

int main(int count, char **arguments) {
    length_ms = count > 1 ? atol(arguments[1]) : 300;
    int regions = count > 2 ? atoi(arguments[2]) : 0;
    length = (struct timespec){length_ms / 1000, length_ms % 1000 * 1000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        EXPECT(pthread_create(&threads[i], NULL, run, &waits[i]) == 0);
    for (int i = 0; i < regions; i++) {
        usleep(length_ms * 1000 / (regions + 1));
        unspool_start_region();
        unspool_end_region();
    }
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    // A wait that has begun anew in its middle is late by half of its length.
    long most_us = length_ms * 1000 / 3;
    if (waits[0].late_us > most_us / 2) {
        puts("cannot tell");
        return 0;
    }
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        if (waits[i].took_us < length_ms * 1000 - 1000 || waits[i].late_us > most_us) {
            fprintf(stderr, "%s took %ld us\n", waits[i].name, waits[i].took_us);
            wrong++;
        }
    }
    if (!wrong)
        puts("all in time");
    return wrong ? 99 : 0;
}
