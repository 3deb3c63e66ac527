// Threads look at futex words, without calls, while the kernel changes them: in FUTEX_WAKE_OP, in
// those of locks with priority inheritance, and when the thread that owns them ends.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

enum { SUMS = 300, ROUNDS = 100, ENDS = 20 };

static _Alignas(64) uint32_t sum;
static _Alignas(64) uint32_t queue;
static _Alignas(64) uint32_t lock;
static _Alignas(64) uint32_t condition;
static _Alignas(64) uint32_t here;
static _Alignas(64) long under_lock;
static int lock_command = FUTEX_LOCK_PI2;

// Little happens in a thread that looks, and much in one that has the kernel change something: as
// far as counts of accesses tell, its call is late.
static uint32_t look(uint32_t *word) {
    for (int i = 0; i < 20; i++)
        __builtin_ia32_pause();
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void do_much(int rounds) {
    volatile int much = 0;
    for (int i = 0; i < rounds; i++)
        much++;
}

static long futex(uint32_t *word, int command, long value, void *fourth, uint32_t *second, long last) {
    return syscall(SYS_futex, word, command | FUTEX_PRIVATE_FLAG, value, fourth, second, last);
}

// The kernel adds to the second word.
static void *add(void *unused) {
    for (int i = 0; i < SUMS; i++) {
        do_much(1000);
        EXPECT(futex(&queue, FUTEX_WAKE_OP, 1, (void *)1, &sum,
                     FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0)) >= 0);
    }
    return unused;
}

static void watch_sum(uint32_t until) {
    uint32_t before = 0;
    while (before != until) {
        uint32_t now = look(&sum);
        EXPECT(now >= before);
        before = now;
    }
}

static void take(void) {
    do_much(200);
    while (futex(&lock, lock_command, 0, NULL, NULL, 0) != 0) {
        if (errno == ENOSYS)
            lock_command = FUTEX_LOCK_PI;
        else
            EXPECT(errno == EAGAIN || errno == EINTR);
    }
    EXPECT((look(&lock) & FUTEX_TID_MASK) == (uint32_t)gettid());
}

static void give(void) {
    do_much(200);
    EXPECT(futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0);
}

static void *take_turns(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        take();
        under_lock++;
        give();
    }
    return unused;
}

// Waits for the condition, and has the lock then.
static void *wait_requeued(void *unused) {
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        uint32_t seen = look(&condition);
        do_much(200);
        __atomic_store_n(&here, i, __ATOMIC_RELEASE);
        struct timespec never = {.tv_sec = 1L << 40};
        long result = futex(&condition, FUTEX_WAIT_REQUEUE_PI, seen, &never, &lock, 0);
        if (result != 0) {
            EXPECT(errno == EAGAIN);
            take();
        }
        EXPECT((look(&lock) & FUTEX_TID_MASK) == (uint32_t)gettid());
        under_lock++;
        give();
    }
    return unused;
}

static void requeue(void) {
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        while (look(&here) != i)
            ;
        take();
        do_much(200);
        uint32_t next = __atomic_add_fetch(&condition, 1, __ATOMIC_ACQ_REL);
        EXPECT(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)0, &lock, next) >= 0);
        give();
    }
}

static void watch_lock(void) {
    while (__atomic_load_n(&under_lock, __ATOMIC_ACQUIRE) != 2 * ROUNDS)
        for (int i = 0; i < 100; i++)
            look(&lock);
}

static uint32_t alive;

static void *end(void *mutex) {
    EXPECT(pthread_mutex_lock(mutex) == 0);
    __atomic_store_n(&alive, 1, __ATOMIC_RELEASE);
    EXPECT(syscall(SYS_set_tid_address, &alive) > 0);
    do_much(200);
    return NULL;
}

// Sees a thread end that owns a lock, by both words that say so.
static void watch_end(int by_lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_mutex_t mutex;
    EXPECT(pthread_mutex_init(&mutex, &attributes) == 0);
    uint32_t *word = (uint32_t *)&mutex.__data.__lock;
    alive = 2;
    pthread_t thread;
    EXPECT(pthread_create(&thread, &detached, end, &mutex) == 0);
    if (by_lock)
        while (!(look(word) & FUTEX_OWNER_DIED))
            ;
    while (look(&alive) != 0)
        ;
    EXPECT(look(word) & FUTEX_OWNER_DIED);
    EXPECT(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, add, NULL) == 0);
    watch_sum(2 * SUMS);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);

    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, take_turns, NULL) == 0);
    watch_lock();
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);

    EXPECT(pthread_create(&threads[0], NULL, wait_requeued, NULL) == 0);
    requeue();
    EXPECT(pthread_join(threads[0], NULL) == 0);
    EXPECT(under_lock == 3 * ROUNDS);

    for (int i = 0; i < ENDS; i++)
        watch_end(i % 2);
    return 0;
}
