// Code is written through one mapping of a memory object and executed through another, as
// just-in-time compilers do that never have memory writable and executable at once.
// flags: -O2 -D_GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "expect.h"

#define SIZE 8192

static long rewrite(unsigned char *writable, unsigned char *executable) {
    long sum = 0;
    for (int i = 0; i < 300; i++) {
        // The second page in turn with the first.
        size_t at = i % 2 ? 4096 + 64 : 32;
        write_answer(writable + at, i);
        int got = call(executable + at);
        EXPECT(got == i);
        EXPECT(call(executable + at) == i);
        sum += got;
    }
    return sum;
}

// The code that is rewritten is reached by a direct call from another page.
static void rewrite_callee(int memory) {
    const size_t size = 16 * 4096, callee = size / 2;
    EXPECT(ftruncate(memory, size) == 0);
    unsigned char *writable = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    unsigned char *executable = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
    EXPECT(writable != MAP_FAILED && executable != MAP_FAILED);
    // sub $8, %rsp; call callee; add $8, %rsp; ret
    unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3};
    int distance = callee - 9;
    memcpy(code + 5, &distance, 4);
    memcpy(writable, code, sizeof code);
    for (int i = 0; i < 50; i++) {
        write_answer(writable + callee, i);
        EXPECT(call(executable) == i);
    }
}

int main(void) {
    int memory = memfd_create("code", 0);
    EXPECT(memory >= 0 && ftruncate(memory, 4 * SIZE) == 0);
    unsigned char *writable =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, SIZE);
    unsigned char *executable =
        mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, memory, SIZE);
    EXPECT(writable != MAP_FAILED && executable != MAP_FAILED);
    printf("%ld\n", rewrite(writable, executable));

    // The kernel writes through the protected view.
    unsigned char code[] = {0xb8, 77, 0, 0, 0, 0xc3};
    int pipes[2];
    EXPECT(pipe(pipes) == 0);
    EXPECT(write(pipes[1], code, sizeof code) == sizeof code);
    EXPECT(read(pipes[0], writable + 32, sizeof code) == sizeof code);
    EXPECT(call(executable + 32) == 77);

    // A writable view that comes, or becomes writable, after the code has run.
    unsigned char *later = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, SIZE);
    write_answer(later + 32, 78);
    EXPECT(call(executable + 32) == 78);
    unsigned char *readable = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memory, SIZE);
    EXPECT(call(executable + 32) == 78);
    EXPECT(mprotect(readable, 4096, PROT_READ | PROT_WRITE) == 0);
    write_answer(readable + 32, 79);
    EXPECT(call(executable + 32) == 79);

    // A private view shows the object until it is written itself.
    unsigned char *private_view =
        mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, memory, SIZE);
    printf("%ld\n", rewrite(writable, private_view));

    // Shared memory without a file, mapped twice.
    unsigned char *anonymous =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char *again = mremap(anonymous, 0, SIZE, MREMAP_MAYMOVE);
    EXPECT(anonymous != MAP_FAILED && again != MAP_FAILED);
    EXPECT(mprotect(again, SIZE, PROT_READ | PROT_EXEC) == 0);
    printf("%ld\n", rewrite(anonymous, again));

    // The object's memory under the code is exchanged.
    write_answer(writable, 1);
    EXPECT(call(executable) == 1);
    EXPECT(mmap(executable, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, memory, 0) ==
           executable);
    unsigned char *first = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    printf("%ld\n", rewrite(first, executable));

    rewrite_callee(memfd_create("far", 0));
    return 0;
}
