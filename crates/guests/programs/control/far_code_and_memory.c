// Code far from the program, and the program's memory at eight times the code's address and above:
// whichever is mapped first, and however it becomes what it is, a call of the code goes there,
// never to what the memory says. Threads call meanwhile.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define PAGE 4096ul
#define FILLED (16ul << 20)
#define ABOVE (4ul << 30)
#define CALLS 200

typedef long (*Function)(long);

static atomic_int calls_astray;
static atomic_int is_over;
static int filled;

// What the memory points to.
static long astray(long x) {
    atomic_fetch_add(&calls_astray, 1);
    return -x;
}

// Memory full of pointers: the same pages everywhere.
static int filled_memory(void) {
    int file = memfd_create("filled", 0);
    EXPECT(file >= 0 && ftruncate(file, FILLED) == 0);
    uintptr_t *words = mmap(NULL, FILLED, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT(words != MAP_FAILED);
    for (size_t i = 0; i < FILLED / sizeof *words; i++) words[i] = (uintptr_t)astray;
    EXPECT(munmap(words, FILLED) == 0);
    return file;
}

static void map_memory(uintptr_t code, int protection) {
    for (uintptr_t at = code * 8; at < code * 8 + ABOVE; at += FILLED) {
        void *got = mmap((void *)at, FILLED, protection, MAP_SHARED | MAP_FIXED_NOREPLACE, filled, 0);
        EXPECT(got == (void *)at);
    }
}

static void permit_memory(uintptr_t code) {
    for (uintptr_t at = code * 8; at < code * 8 + ABOVE; at += FILLED)
        EXPECT(mprotect((void *)at, FILLED, PROT_READ) == 0);
}

static Function map_code(uintptr_t at, int protection) {
    unsigned char *place =
        mmap((void *)at, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT(place == (void *)at);
    return (Function)place;
}

static void write_code(Function at) {
    const unsigned char code[] = {0x48, 0x8d, 0x47, 7, 0xc3};  // lea 7(%rdi), %rax; ret
    memcpy((void *)at, code, sizeof code);
}

__attribute__((noinline)) static long call(volatile Function *function, long x) {
    return (*function)(x);
}

static void call_often(Function far) {
    volatile Function function = far;
    for (long i = 0; i < CALLS; i++) EXPECT(call(&function, i) == i + 7);
    EXPECT(atomic_load(&calls_astray) == 0);
}

__attribute__((noinline)) static long near(long x) { return x * 3; }

static void *call_near(void *unused) {
    (void)unused;
    volatile Function function = near;
    for (long i = 0; !atomic_load(&is_over); i++) EXPECT(function(i) == i * 3);
    return NULL;
}

int main(void) {
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    pthread_t thread;
    filled = filled_memory();
    EXPECT(pthread_create(&thread, NULL, call_near, NULL) == 0);

    // A child for each order, as what the first one meets would help the next.
    for (int order = 0; order < 5; order++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            uintptr_t at = 0x90000000000ul + (uintptr_t)order * 0x1000000000ul;
            pthread_t beside;
            EXPECT(pthread_create(&beside, NULL, call_near, NULL) == 0);
            Function code;
            if (order == 0) {
                map_memory(at, PROT_READ);
                write_code(code = map_code(at, all));
            } else if (order == 1) {
                write_code(code = map_code(at, all));
                map_memory(at, PROT_READ);
            } else if (order == 2) {
                write_code(code = map_code(at, all));
                call_often(code);
                map_memory(at, PROT_NONE);
                call_often(code);
                permit_memory(at);
            } else if (order == 3) {
                map_memory(at, PROT_READ);
                write_code(code = map_code(at, PROT_READ | PROT_WRITE));
                EXPECT(mprotect((void *)code, PAGE, PROT_READ | PROT_EXEC) == 0);
            } else {
                map_memory(at, PROT_READ);
                write_code(code = map_code(at - PAGE * 4, all));
                void *moved = mremap((void *)code, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
                EXPECT(moved == (void *)at);
                code = (Function)moved;
            }
            call_often(code);
            atomic_store(&is_over, 1);
            EXPECT(pthread_join(beside, NULL) == 0);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&is_over, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    return 0;
}
