// Filters that the kernel does not take, with its errors; and what it says of itself.
// flags: -O2 -D_GNU_SOURCE
#include "filters.h"

static struct sock_filter allow = RETURN(SECCOMP_RET_ALLOW);

static int error_of(int count, struct sock_filter *rules, unsigned flags) {
    struct sock_fprog filter = {(unsigned short)count, rules};
    errno = 0;
    return install(&filter, flags) == -1 ? errno : 0;
}

#define ERROR_OF(...)                                                  \
    ({                                                                 \
        struct sock_filter rules[] = {__VA_ARGS__};                    \
        error_of(sizeof rules / sizeof *rules, rules, 0);              \
    })

static void without_permission(void) {
    struct sock_fprog filter = {1, &allow};
    if (setresuid(65534, 65534, 65534) != 0)
        _exit(1);
    int refused = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == -1 &&
                  errno == EACCES;
    struct sock_fprog empty = {0, &allow};
    int before = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty) == -1 && errno == EINVAL;
    _exit(refused && before ? 4 : 1);
}

static void too_many(void) {
    static struct sock_filter rules[4000];
    for (int at = 0; at < 4000; at++)
        rules[at] = allow;
    int round = 0;
    while (error_of(4000, rules, 0) == 0)
        round++;
    // The kernel counts two instructions for each of these, and has room for 32768.
    _exit(errno == ENOMEM ? round : 99);
}

static void the_longest(void) {
    static struct sock_filter rules[4096];
    rules[0] = (struct sock_filter)LOAD(nr);
    rules[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1);
    rules[2] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOTTY);
    for (int at = 3; at < 4096; at++)
        rules[at] = allow;
    if (error_of(4096, rules, 0) != 0)
        _exit(1);
    _exit(syscall(SYS_getppid) == -1 && errno == ENOTTY ? 6 : 2);
}

int main(void) {
    EXPECT(EXITS_WITH(ending_of(without_permission), 4));
    EXPECT(error_of(0, &allow, 0) == EINVAL && error_of(4097, &allow, 0) == EINVAL);
    EXPECT(error_of(1, NULL, 0) == EINVAL && error_of(1, (void *)8, 0) == EFAULT);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 8) == -1 && errno == EFAULT);
    EXPECT(error_of(1, &allow, 1 << 20) == EINVAL && error_of(1, &allow, 1u << 31) == EINVAL);
    EXPECT(error_of(1, &allow, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER) ==
           EINVAL);
    EXPECT(syscall(SYS_seccomp, 77, 0, 0) == -1 && errno == EINVAL);
    EXPECT(prctl(PR_SET_SECCOMP, 77, 0) == -1 && errno == EINVAL);

    EXPECT(ERROR_OF(LOAD(nr)) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_LD | BPF_MEM, 0), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_ST, 16), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(BPF_JMP | BPF_JA, 1), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), allow) == EINVAL);
    EXPECT(ERROR_OF(BPF_STMT(0xffff, 0), allow) == EINVAL);
    EXPECT(prctl(PR_GET_SECCOMP) == 0);

    unsigned action = SECCOMP_RET_ERRNO;
    EXPECT(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
    action = 0x12340000;
    EXPECT(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == -1 &&
           errno == EOPNOTSUPP);
    struct seccomp_notif_sizes sizes = {0};
    EXPECT(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0);
    EXPECT(sizes.seccomp_data == sizeof(struct seccomp_data));

    EXPECT(EXITS_WITH(ending_of(the_longest), 6));
    EXPECT(EXITS_WITH(ending_of(too_many), 4));
    EXPECT(error_of(1, &allow, 0) == 0 && prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
    puts("end");
}
