// Spends its time in code that it has made itself, and tells of it as just-in-time compilers do, in
// /tmp/perf-PID.map, which it removes in the end. One function calls the other.
// flags: -O2

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noipa))

// push %rbp; mov %rsp,%rbp; call *%rsi; pop %rbp; ret
static const uint8_t outer[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
// push %rbp; mov %rsp,%rbp; 0: dec %rdi; jne 0b; pop %rbp; ret
static const uint8_t spin[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};

typedef void (*inner_function)(uint64_t);
typedef void (*outer_function)(uint64_t, inner_function);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

APART int call_generated(outer_function call, inner_function called, double seconds) {
    double end = now() + seconds;
    int calls = 0;
    while (now() < end) {
        call(100000, called);
        calls++;
    }
    return calls;
}

// For a short while without an argument. One has it take longer, or say nothing as well.
int main(int count, char **arguments) {
    int is_silent = count > 1 && strcmp(arguments[1], "silent") == 0;
    double seconds = count > 1 ? 1.5 : 0.05;
    char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    memcpy(code, outer, sizeof outer);
    memcpy(code + 64, spin, sizeof spin);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0)
        return 2;
    char path[64], text[512];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    int length = snprintf(text, sizeof text,
                          "%lx 40 an earlier name\n"
                          "not a line of such a file\n"
                          "%lx %lx generated outer\n"
                          "%lx %lx generated spin\n",
                          (long)code, (long)code, (long)sizeof outer, (long)code + 64,
                          (long)sizeof spin);
    if (!is_silent) {
        int map = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (map < 0 || write(map, text, length) != length || close(map) != 0)
            return 3;
    }
    int calls = call_generated((outer_function)code, (inner_function)(code + 64), seconds);
    if (!is_silent)
        unlink(path);
    return calls > 0 ? 0 : 4;
}
