// A filter has calls fail without being made: threads, processes, memory and programs are not
// to be had, and nothing of them is looked at before.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>

#include "filters.h"

#define FAILS(call, number) (errno = 0, (long)(call) == -1 && errno == (number))

static void *never(void *nothing) {
    puts("a thread all the same");
    return nothing;
}

int main(void) {
    FILTER(rules, LOAD(nr), IF(SYS_clone, SECCOMP_RET_ERRNO | ENOTTY),
           IF(SYS_clone3, SECCOMP_RET_ERRNO | ENOTTY), IF(SYS_fork, SECCOMP_RET_ERRNO | ENOTTY),
           IF(SYS_vfork, SECCOMP_RET_ERRNO | EXDEV), IF(SYS_execve, SECCOMP_RET_ERRNO | EXDEV),
           IF(SYS_execveat, SECCOMP_RET_ERRNO | EXDEV), IF(SYS_mmap, SECCOMP_RET_ERRNO | EPROTO),
           IF(SYS_munmap, SECCOMP_RET_ERRNO | EPROTO), IF(SYS_mprotect, SECCOMP_RET_ERRNO | EPROTO),
           IF(SYS_openat, SECCOMP_RET_ERRNO | ENOTTY), IF(SYS_getppid, SECCOMP_RET_ERRNO | 0),
           IF(SYS_getuid, SECCOMP_RET_ERRNO | 0xffff), IF(SYS_close, SECCOMP_RET_ERRNO | EPROTO),
           IF(SYS_sigaltstack, SECCOMP_RET_ERRNO | EPROTO),
           IF(SYS_rt_sigaction, SECCOMP_RET_ERRNO | EPROTO),
           IF(SYS_readlink, SECCOMP_RET_ERRNO | EPROTO), IF(SYS_kill, SECCOMP_RET_ERRNO | EPROTO),
           RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&rules, 0) == 0);

    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, never, NULL) != 0);
    EXPECT(FAILS(fork(), ENOTTY));
    EXPECT(FAILS(syscall(SYS_clone, -1, 0, 0, 0, 0), ENOTTY));
    EXPECT(FAILS(syscall(SYS_clone3, 1, 1), ENOTTY));
    EXPECT(FAILS(syscall(SYS_vfork), EXDEV));
    EXPECT(FAILS(syscall(SYS_execve, "", NULL, NULL), EXDEV));
    EXPECT(FAILS(syscall(SYS_execve, 8, NULL, NULL), EXDEV));
    EXPECT(FAILS(syscall(SYS_execveat, 999, "", NULL, NULL, 0), EXDEV));
    EXPECT(FAILS(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EPROTO));
    EXPECT(FAILS(munmap((void *)1, 0), EPROTO));
    EXPECT(FAILS(mprotect((void *)1, 0, 77), EPROTO));
    EXPECT(FAILS(open("/", O_RDONLY), ENOTTY));
    EXPECT(FAILS(close(999), EPROTO));
    EXPECT(FAILS(sigaltstack((void *)1, NULL), EPROTO));
    EXPECT(FAILS(signal(SIGUSR1, SIG_IGN), EPROTO));
    EXPECT(FAILS(syscall(SYS_readlink, "/proc/self/exe", NULL, 0), EPROTO));
    EXPECT(FAILS(kill(getpid(), SIGKILL), EPROTO));
    EXPECT(syscall(SYS_getppid) == 0);
    EXPECT(FAILS(syscall(SYS_getuid), 4095));
    char *memory = malloc(1000);
    EXPECT(memory != NULL);
    puts("end");
}
