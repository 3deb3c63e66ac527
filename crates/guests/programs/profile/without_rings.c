// Runs a program for which there is no memory for the kernel's samples: a filter refuses mappings
// of such a size, shared, to be read and written, at the start of what is mapped. Without arguments
// it looks whether it does.
// flags: -O2

#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOW_WORD(argument) (offsetof(struct seccomp_data, args) + 8 * (argument))
#define LEAST 65536

int main(int count, char **arguments) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 9),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_WORD(2)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_WORD(3)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_WORD(5)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_WORD(1)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LEAST, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 3;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 4;
    if (count > 1) {
        execvp(arguments[1], arguments + 1);
        return 5;
    }
    int file = memfd_create("memory", 0);
    if (file < 0 || ftruncate(file, 4 * LEAST) != 0)
        return 6;
    int protection = PROT_READ | PROT_WRITE;
    errno = 0;
    if (mmap(NULL, 2 * LEAST, protection, MAP_SHARED, file, 0) != MAP_FAILED || errno != EPERM)
        return 7;
    if (mmap(NULL, 2 * LEAST, protection, MAP_SHARED, file, LEAST) == MAP_FAILED)
        return 8;
    return mmap(NULL, LEAST, protection, MAP_SHARED, file, 0) == MAP_FAILED ? 9 : 0;
}
