// A signal that ends the process, sent to a thread that sleeps, computes, or waits for a lock,
// ends it before the sender's call returns; one that the thread blocks does not.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int ready, blocks;
static volatile pid_t tid;

static void *thread(void *how) {
    if (blocks) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
    }
    tid = syscall(SYS_gettid);
    ready = 1;
    if (how == (void *)0)
        sleep(100);
    if (how == (void *)1)
        for (volatile long i = 0;; i++)
            ;
    pthread_mutex_lock(&lock);
    return NULL;
}

static int end_of(long how, int signal, int by_process, int blocked) {
    int pipes[2];
    EXPECT(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        blocks = blocked;
        pthread_mutex_lock(&lock);
        pthread_t other;
        pthread_create(&other, NULL, thread, (void *)how);
        while (!ready)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        if (by_process)
            kill(getpid(), signal);
        else
            syscall(SYS_tgkill, getpid(), tid, signal);
        EXPECT(write(pipes[1], "back", 4) == 4);
        _exit(7);
    }
    close(pipes[1]);
    char text[4];
    int said = read(pipes[0], text, 4) > 0, status;
    close(pipes[0]);
    waitpid(child, &status, 0);
    EXPECT(said == blocked);
    return status;
}

int main(void) {
    const int signals[] = {SIGUSR1, SIGTERM, SIGALRM, SIGRTMAX};
    for (int i = 0; i < 4; i++) {
        int status = end_of(i % 3, signals[i], i == 3, 0);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
        status = end_of((i + 1) % 3, signals[i], 0, 1);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    puts("none came back");
    return 0;
}
