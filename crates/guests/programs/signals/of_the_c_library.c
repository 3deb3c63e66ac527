// Signal 32, which the C library keeps for itself (to cancel threads) and the kernel gives to
// whoever asks for it: blocked, sent, queued, handled, waited for, inherited, and deadly.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { CANCEL = 32, TIMES = 3, RESTORER = 0x04000000 };

// As the kernel has it: the C library refuses this signal.
struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

static const unsigned long bit = 1UL << (CANCEL - 1);
static int handled, values, was_blocked;

__asm__(".text\n"
        "return_from_handler:\n"
        "mov $15, %eax\n"
        "syscall\n");
extern void return_from_handler(void);

static unsigned long mask(void) {
    unsigned long set;
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &set, 8) == 0);
    return set;
}

static unsigned long pending(void) {
    unsigned long set;
    EXPECT(syscall(SYS_rt_sigpending, &set, 8) == 0);
    return set;
}

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    EXPECT(signal == CANCEL);
    was_blocked += (mask() & bit) != 0;
    values = values * 10 + information->si_value.sival_int;
    handled++;
}

static void send(int value) {
    siginfo_t information;
    memset(&information, 0, sizeof information);
    information.si_code = SI_QUEUE;
    information.si_value.sival_int = value;
    EXPECT(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), CANCEL, &information) == 0);
}

static void set_action(void (*to)(int, siginfo_t *, void *)) {
    struct kernel_action action = {to, SA_SIGINFO | RESTORER, return_from_handler, 0}, got;
    EXPECT(syscall(SYS_rt_sigaction, CANCEL, &action, NULL, 8) == 0);
    EXPECT(syscall(SYS_rt_sigaction, CANCEL, NULL, &got, 8) == 0 && got.handler == to);
}

static void change_mask(int how) {
    EXPECT(syscall(SYS_rt_sigprocmask, how, &bit, NULL, 8) == 0);
}

static void in_this_thread(void) {
    change_mask(SIG_BLOCK);
    EXPECT(mask() & bit);
    for (int value = 1; value <= TIMES; value++)
        send(value);
    EXPECT(handled == 0 && pending() & bit);
    change_mask(SIG_UNBLOCK);
    EXPECT(handled == TIMES && values == 123 && was_blocked == TIMES && !(pending() & bit));
    EXPECT(!(mask() & bit));
    send(4);
    EXPECT(handled == TIMES + 1);

    siginfo_t information;
    change_mask(SIG_BLOCK);
    send(5);
    EXPECT(syscall(SYS_rt_sigtimedwait, &bit, &information, NULL, 8) == CANCEL);
    EXPECT(information.si_value.sival_int == 5 && handled == TIMES + 1);
    change_mask(SIG_UNBLOCK);
}

static void in_a_child(void *action, int ended_by) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        set_action((void (*)(int, siginfo_t *, void *))action);
        send(6);
        _exit(7);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    if (ended_by)
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == ended_by);
    else
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void *waits_for_ever(void *file) {
    char byte;
    (void)!read(*(int *)file, &byte, 1);
    return file;
}

// What the C library has it for.
static void cancels(void) {
    int ends[2];
    void *result;
    pthread_t thread;
    EXPECT(pipe(ends) == 0);
    EXPECT(pthread_create(&thread, NULL, waits_for_ever, &ends[0]) == 0);
    usleep(2000);
    EXPECT(pthread_cancel(thread) == 0);
    EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    EXPECT(sigaction(CANCEL, NULL, &(struct sigaction){0}) == -1 && errno == EINVAL);
    set_action(handler);
    in_this_thread();
    in_a_child((void *)SIG_DFL, CANCEL);
    in_a_child((void *)SIG_IGN, 0);
    in_a_child((void *)handler, 0);
    for (int round = 0; round < 10; round++)
        cancels();
    puts("sent, kept, handled, and deadly");
    return 0;
}
