// Under a filter that makes execveat unknown, as to kernels that do not have it. What follows on
// the command line is executed under it.
// flags: -O1 -D_GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "expect.h"

extern char **environ;

int main(int count, char **arguments) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    if (count > 1) {
        execve(arguments[1], arguments + 1, environ);
        return 1;
    }
    EXPECT(syscall(SYS_execveat, -1, "/bin/true", arguments, environ, 0) == -1 && errno == ENOSYS);
    puts("unknown");
    return 0;
}
