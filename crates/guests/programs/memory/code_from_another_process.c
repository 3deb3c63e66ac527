// Code in shared memory is rewritten by another process: by a child, by the parent, and
// through a file that both have mapped.
// flags: -O2 -D_GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "answer.h"
#include "expect.h"

#define ROUNDS 100

static void tell(int pipe) { EXPECT(write(pipe, "x", 1) == 1); }

static void hear(int pipe) {
    char byte;
    EXPECT(read(pipe, &byte, 1) == 1);
}

// The processes take turns: each runs what the other one wrote.
static void take_turns(const char *what, unsigned char *mine, unsigned char *executable) {
    int there[2], back[2];
    EXPECT(pipe(there) == 0 && pipe(back) == 0);
    write_answer(mine, -1);
    EXPECT(call(executable) == -1);
    long sum = 0;
    pid_t child = fork();
    EXPECT(child >= 0);
    int in = child ? back[0] : there[0], out = child ? there[1] : back[1];
    for (int i = 0; i < ROUNDS; i++) {
        if (child) {
            write_answer(mine, i);
            tell(out);
            hear(in);
            EXPECT(call(executable) == 1000 + i);
        } else {
            hear(in);
            EXPECT(call(executable) == i);
            write_answer(mine, 1000 + i);
            EXPECT(call(executable) == 1000 + i);
            tell(out);
        }
        sum += i;
    }
    if (!child)
        _exit(0);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    printf("%s %ld\n", what, sum);
}

int main(void) {
    unsigned char *one = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(one != MAP_FAILED);
    take_turns("one mapping", one + 100, one + 100);

    char name[] = "code-XXXXXX";
    int file = mkstemp(name);
    EXPECT(file >= 0 && ftruncate(file, 4096) == 0);
    unsigned char *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *executable = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    EXPECT(writable != MAP_FAILED && executable != MAP_FAILED);
    take_turns("a file", writable, executable);
    EXPECT(unlink(name) == 0);
    return 0;
}
