// Pointers to where nothing is, among them those that defects leave behind: poisoned, cut to 32
// bits, a little away from something. System calls say what they say to bad pointers, and no more
// than that happens.
// flags: -O2 -D_GNU_SOURCE
// variants: static, threaded
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static const uintptr_t BAD[] = {
    0x4fd00000,   0x4fd01008,   0x4fe00000,   0x50000000,   0x50001008,    0x5a5a5a58,
    0x6ffffff8,   0x70000040,   0x75000000,   0x7f7f7f78,   0x80000000,    0xa5a5a5a0,
    0xabababa8,   0xbaadf008,   0xcafebab8,   0xccccccc8,   0xdeadbee8,    0xfeeefee8,
    0xfffffff8,   0x100000000,  0x123456788,  0x1234567890, 0xdeadbeef00,  0x41414141410,
};

#define FAILS(error, call) EXPECT((call) == -1 && errno == (error))

static void reading(void *bad, const int *pipe) {
    struct iovec first_bad[] = {{bad, 8}, {(void *)"good", 4}};
    struct iovec last_bad[] = {{(void *)"good", 4}, {bad, 8}};
    struct iovec empty_bad[] = {{bad, 0}, {(void *)"good", 4}};
    struct msghdr message = {.msg_iov = first_bad, .msg_iovlen = 1};
    struct timespec zero = {0};
    char byte;
    EXPECT(write(pipe[1], bad, 0) == 0);
    FAILS(EFAULT, write(pipe[1], bad, 8));
    FAILS(EBADF, write(-1, bad, 8));
    FAILS(EFAULT, writev(pipe[1], first_bad, 2));
    FAILS(EFAULT, writev(pipe[1], bad, 1));
    FAILS(EFAULT, writev(pipe[1], last_bad, 2));
    EXPECT(writev(pipe[1], empty_bad, 2) == 4);
    for (int i = 0; i < 4; i++)
        EXPECT(read(pipe[0], &byte, 1) == 1);
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    FAILS(EFAULT, sendmsg(sockets[0], &message, 0));
    FAILS(EFAULT, sendmsg(sockets[0], bad, 0));
    FAILS(EFAULT, sendto(sockets[0], bad, 8, 0, NULL, 0));
    FAILS(EFAULT, setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUF, bad, 4));
    close(sockets[0]);
    close(sockets[1]);
    FAILS(EFAULT, open(bad, O_RDONLY));
    FAILS(EFAULT, openat(AT_FDCWD, bad, O_RDONLY));
    FAILS(EFAULT, chdir(bad));
    FAILS(EFAULT, access(bad, R_OK));
    FAILS(EFAULT, rename("none", bad));
    FAILS(EFAULT, syscall(SYS_clock_settime, CLOCK_REALTIME, bad));
    FAILS(EFAULT, nanosleep(bad, NULL));
    FAILS(EFAULT, ppoll(NULL, 0, &zero, bad));
    FAILS(EFAULT, syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8));
    FAILS(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8));
    FAILS(EFAULT, sigaltstack(bad, NULL));
    FAILS(EFAULT, syscall(SYS_futex, bad, 0, 0, &zero, NULL, 0));
    FAILS(EFAULT, setrlimit(RLIMIT_CORE, bad));
    FAILS(EFAULT, ioctl(pipe[0], FIONBIO, bad));
}

static void writing(void *bad, int file, const int *pipe) {
    char eight[8];
    struct iovec here = {eight, 8}, there = {bad, 8}, last_bad[] = {{eight, 4}, {bad, 8}};
    struct msghdr message = {.msg_iov = &there, .msg_iovlen = 1};
    FAILS(EFAULT, read(file, bad, 8));
    FAILS(EFAULT, pread(file, bad, 8, 0));
    FAILS(EFAULT, preadv(file, &there, 1, 0));
    EXPECT(preadv(file, last_bad, 2, 0) == 4);
    EXPECT(read(file, bad, 0) == 0);
    FAILS(EFAULT, fstat(file, bad));
    FAILS(EFAULT, syscall(SYS_pipe2, bad, 0));
    FAILS(EFAULT, syscall(SYS_getcwd, bad, 4096));
    FAILS(EFAULT, syscall(SYS_getrandom, bad, 8, 0));
    FAILS(EFAULT, syscall(SYS_clock_gettime, CLOCK_REALTIME, bad));
    FAILS(EFAULT, getrlimit(RLIMIT_CORE, bad));
    FAILS(EFAULT, syscall(SYS_uname, bad));
    FAILS(EFAULT, readlink("/proc/self/exe", bad, 100));
    FAILS(EFAULT, syscall(SYS_rt_sigaction, SIGUSR1, NULL, bad, 8));
    FAILS(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, bad, 8));
    FAILS(EFAULT, sigaltstack(NULL, bad));
    FAILS(EFAULT, ioctl(pipe[0], FIONREAD, bad));
    FAILS(EFAULT, process_vm_readv(getpid(), &here, 1, &there, 1, 0));
    FAILS(EFAULT, process_vm_readv(getpid(), &there, 1, &here, 1, 0));
    FAILS(EFAULT, process_vm_writev(getpid(), &here, 1, &there, 1, 0));
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    EXPECT(write(sockets[0], "message", 8) == 8);
    FAILS(EFAULT, recvmsg(sockets[1], &message, 0));
    FAILS(EFAULT, recv(sockets[1], bad, 8, 0));
    EXPECT(recv(sockets[1], eight, 8, 0) == 8);
    close(sockets[0]);
    close(sockets[1]);
}

static void executing(void *bad) {
    char *name[] = {bad, NULL}, *good[] = {"true", NULL};
    char *none[] = {NULL};
    FAILS(EFAULT, syscall(SYS_execve, bad, good, none));
    FAILS(EFAULT, syscall(SYS_execve, "/bin/true", bad, none));
    FAILS(EFAULT, syscall(SYS_execve, "/bin/true", name, none));
    FAILS(EFAULT, syscall(SYS_execve, "/bin/true", good, bad));
    FAILS(EFAULT, syscall(SYS_execve, "/bin/true", good, name));
}

static void pages(void *bad) {
    void *page = (void *)((uintptr_t)bad & -4096ul);
    unsigned char resident;
    FAILS(ENOMEM, madvise(page, 4096, MADV_DONTNEED));
    FAILS(ENOMEM, mlock(page, 4096));
    FAILS(ENOMEM, munlock(page, 4096));
    FAILS(ENOMEM, msync(page, 4096, MS_SYNC));
    FAILS(ENOMEM, mincore(page, 4096, &resident));
    FAILS(ENOMEM, mprotect(page, 4096, PROT_READ));
}

int main(void) {
    int file = open("/proc/self/exe", O_RDONLY), pipes[2];
    EXPECT(file >= 0 && pipe(pipes) == 0);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        void *bad = (void *)BAD[i];
        reading(bad, pipes);
        writing(bad, file, pipes);
        executing(bad);
        pages(bad);
    }
    puts("all bad");
    return 0;
}
