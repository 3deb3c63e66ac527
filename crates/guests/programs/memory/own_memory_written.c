// The program writes its own memory through files that are its memory, and by process_vm_writev to
// itself and to another of its threads: what it reads afterwards is what was written. It prints
// what each call writes.
// flags: -O1 -D_GNU_SOURCE -pthread
// compare: status
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "expect.h"

enum { BYTES = 96 };
static volatile char words[4096];
static int thread_id;
static pthread_barrier_t known, done;

/* The program has written and read all of it before. */
static char *prepare(int number)
{
    char *at = (char *)words + 128 * number + number;
    memset(at, 'a', BYTES);
    for (int i = 0; i < BYTES; i++)
        EXPECT(((volatile char *)at)[i] == 'a');
    return at;
}

static void check(const char *how, const char *at, long written)
{
    EXPECT(written == BYTES);
    printf("%s %lx %d\n", how, (long)at, BYTES);
    for (int i = 0; i < BYTES; i++)
        EXPECT(((volatile const char *)at)[i] == (char)('A' + i % 20));
}

static void *wait_for_end(void *unused)
{
    thread_id = (int)syscall(SYS_gettid);
    pthread_barrier_wait(&known);
    pthread_barrier_wait(&done);
    return unused;
}

int main(void)
{
    char content[BYTES], path[64];
    for (int i = 0; i < BYTES; i++)
        content[i] = (char)('A' + i % 20);
    struct iovec parts[] = {{content, 40}, {content + 40, BYTES - 40}};
    snprintf(path, sizeof path, "/proc/%d/mem", (int)getpid());
    const char *paths[] = {"/proc/self/mem", "/proc/thread-self/mem", path};
    int number = 0;
    for (int i = 0; i < 3; i++) {
        int file = open(paths[i], O_RDWR);
        EXPECT(file >= 0);
        char *at = prepare(++number);
        check("pwrite", at, pwrite(file, content, BYTES, (off_t)(uintptr_t)at));
        at = prepare(++number);
        check("pwritev", at, pwritev(file, parts, 2, (off_t)(uintptr_t)at));
        at = prepare(++number);
        EXPECT(lseek(file, (off_t)(uintptr_t)at, SEEK_SET) != -1);
        check("write", at, write(file, content, BYTES));
        at = prepare(++number);
        EXPECT(lseek(file, (off_t)(uintptr_t)at, SEEK_SET) != -1);
        check("writev", at, writev(file, parts, 2));
        close(file);
    }
    char *at = prepare(++number);
    struct iovec remote = {at, BYTES};
    check("process_vm_writev", at, process_vm_writev(getpid(), parts, 2, &remote, 1, 0));
    pthread_t thread;
    pthread_barrier_init(&known, 0, 2);
    pthread_barrier_init(&done, 0, 2);
    EXPECT(pthread_create(&thread, 0, wait_for_end, 0) == 0);
    pthread_barrier_wait(&known);
    at = prepare(++number);
    remote.iov_base = at;
    check("process_vm_writev", at, process_vm_writev(thread_id, parts, 2, &remote, 1, 0));
    pthread_barrier_wait(&done);
    pthread_join(thread, 0);
    return 0;
}
