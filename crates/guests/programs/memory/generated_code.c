// A small compiler: pages are written, then made executable, called from several threads,
// then reused for other code, also after the place was unmapped and mapped again.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

static unsigned char *page;
static int wanted;

static void write_code(unsigned char *where, int value) {
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x01, 0xf8, 0xc3}; // mov $N, eax; add edi, eax; ret
    memcpy(code + 1, &value, 4);
    memcpy(where, code, sizeof code);
}

static void *call(void *argument) {
    int (*volatile code)(int) = (int (*)(int))page;
    for (int i = 0; i < 100; i++)
        EXPECT(code(i) == wanted + i);
    return argument;
}

static void call_from_threads(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, call, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (wanted = 1; wanted <= 30; wanted++) {
        EXPECT(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
        write_code(page, wanted);
        EXPECT(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
        call_from_threads();
    }
    // Unmapped and mapped again at the same place, with other code.
    for (wanted = 100; wanted <= 110; wanted++) {
        EXPECT(munmap(page, 4096) == 0);
        EXPECT(mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
        write_code(page, wanted);
        call_from_threads();
    }
    puts("as written");
    return 0;
}
