// A supervisor answers for calls of its child: it reads their arguments, gives a result, an
// error, a descriptor, or lets the kernel make the call. Signals interrupt the wait for it.
// flags: -O2 -D_GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "filters.h"

static void send_descriptor(int to, int descriptor) {
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    EXPECT(sendmsg(to, &message, 0) == 1);
}

static int receive_descriptor(int from) {
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    EXPECT(recvmsg(from, &message, 0) == 1);
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static volatile sig_atomic_t handled;
static void handle(int signal) { handled = signal; }

static int supervised(int channel) {
    FILTER(rules, LOAD(nr), IF(SYS_getppid, SECCOMP_RET_USER_NOTIF),
           IF(SYS_openat, SECCOMP_RET_USER_NOTIF), IF(SYS_mkdir, SECCOMP_RET_USER_NOTIF),
           IF(SYS_mmap, SECCOMP_RET_USER_NOTIF), IF(SYS_pause, SECCOMP_RET_USER_NOTIF),
           RETURN(SECCOMP_RET_ALLOW));
    int listener = (int)install(&rules, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    EXPECT(listener >= 0 && (fcntl(listener, F_GETFD) & FD_CLOEXEC) != 0);
    EXPECT(install(&rules, SECCOMP_FILTER_FLAG_NEW_LISTENER) == -1 && errno == EBUSY);
    send_descriptor(channel, listener);
    close(listener);

    EXPECT(syscall(SYS_getppid, 11, 22, 33) == 66);
    EXPECT(mkdir("/refused", 0) == -1 && errno == EPROTO);
    int descriptor = open("/given", O_RDONLY);
    EXPECT(descriptor >= 0);
    char text[6] = "";
    EXPECT(read(descriptor, text, 5) == 5 && strcmp(text, "given") == 0);
    EXPECT(open("/dev/null", O_RDONLY) >= 0);
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    memory[8191] = 1;
    struct sigaction action = {.sa_handler = handle};
    struct itimerval soon = {.it_value.tv_usec = 50000};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    EXPECT(pause() == -1 && errno == EINTR && handled == SIGALRM);
    return 17;
}

static int answer(int listener, pid_t child) {
    static _Alignas(8) char asked_space[512], answer_space[512];
    struct seccomp_notif *asked = (void *)asked_space;
    struct seccomp_notif_resp *answer = (void *)answer_space;
    memset(asked_space, 0, sizeof asked_space);
    memset(answer_space, 0, sizeof answer_space);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, asked) != 0)
        return -1;
    EXPECT(asked->pid == (unsigned)child && asked->data.arch == AUDIT_ARCH_X86_64);
    answer->id = asked->id;
    const __u64 *arguments = (const __u64 *)asked->data.args;
    char path[16] = "";
    struct iovec here = {path, sizeof path - 1}, there = {(void *)arguments[1], sizeof path - 1};
    switch (asked->data.nr) {
    case SYS_getppid:
        answer->val = (__s64)(arguments[0] + arguments[1] + arguments[2]);
        break;
    case SYS_mkdir:
        answer->error = -EPROTO;
        break;
    case SYS_openat:
        EXPECT(process_vm_readv(child, &here, 1, &there, 1, 0) > 0);
        if (strcmp(path, "/given") == 0) {
            int text = memfd_create("given", 0);
            EXPECT(write(text, "given", 5) == 5 && lseek(text, 0, SEEK_SET) == 0);
            struct seccomp_notif_addfd add = {.id = asked->id, .srcfd = text,
                                              .flags = SECCOMP_ADDFD_FLAG_SEND};
            EXPECT(ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0);
            return asked->data.nr;
        }
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        break;
    case SYS_pause:
        // The signal comes first.
        return asked->data.nr;
    default:
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    EXPECT(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked->id) == 0);
    EXPECT(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer) == 0);
    return asked->data.nr;
}

int main(void) {
    int channel[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(supervised(channel[1]));
    int listener = receive_descriptor(channel[0]), counts[4] = {0};
    for (;;) {
        struct pollfd events = {listener, POLLIN, 0};
        EXPECT(poll(&events, 1, -1) == 1);
        if (events.revents & POLLHUP)
            break;
        switch (answer(listener, child)) {
        case SYS_getppid: counts[0]++; break;
        case SYS_mkdir: counts[1]++; break;
        case SYS_openat: counts[2]++; break;
        case SYS_mmap: counts[3]++; break;
        }
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && EXITS_WITH(status, 17));
    EXPECT(counts[0] == 1 && counts[1] == 1 && counts[2] == 2 && counts[3] == 1);
    puts("end");
}
