// Code whose content a system call changes: it is discarded, its file is written, punched, cut or
// emptied, it is moved, or its mapping shows another place of the file. What runs afterwards is
// what is there.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "answer.h"
#include "expect.h"

#define PAGE 4096ul
#define CODE (PROT_READ | PROT_EXEC)
#define ALL (CODE | PROT_WRITE)

static sigjmp_buf escape;
static unsigned char *fault;

static void escape_from(int signal, siginfo_t *information, void *context) {
    (void)information;
    fault = (unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(escape, signal);
}

// The answer of what is there, or minus the signal by which it ends: zeroes are `add %al,(%rax)`,
// which is run with rax 0.
static int run(unsigned char *place) {
    int signal = sigsetjmp(escape, 1);
    if (signal) {
        EXPECT(fault == place);
        return -signal;
    }
    int answer = 0;
    __asm__ volatile("call *%1" : "+a"(answer) : "r"(place) : "memory", "cc", "rcx", "rdx");
    return answer;
}

static unsigned char *map(int protection, int flags, int file, long offset) {
    unsigned char *place = mmap(NULL, PAGE, protection, flags, file, offset);
    EXPECT(place != MAP_FAILED);
    return place;
}

// A file with a page for each of two answers.
static int make(const char *name) {
    static unsigned char content[2 * PAGE];
    write_answer(content, 1);
    write_answer(content + PAGE, 2);
    int file = name ? open(name, O_RDWR | O_CREAT | O_TRUNC, 0700) : memfd_create("code", 0);
    EXPECT(file >= 0 && pwrite(file, content, sizeof content, 0) == sizeof content);
    return file;
}

static unsigned char new_code[16];

static void by_pwrite(int file) { EXPECT(pwrite(file, new_code, 16, 0) == 16); }

static void by_write(int file) {
    EXPECT(lseek(file, 0, SEEK_SET) == 0);
    EXPECT(write(file, new_code, 16) == 16);
}

static void by_pwritev(int file) {
    struct iovec parts[] = {{new_code, 7}, {new_code + 7, 9}};
    EXPECT(pwritev(file, parts, 2, 0) == 16);
}

// On the same file system, so that a range of it can be copied.
static int other_file(int file) {
    struct stat facts;
    EXPECT(fstat(file, &facts) == 0);
    int from = facts.st_nlink ? open(".", O_RDWR | O_TMPFILE, 0600) : memfd_create("from", 0);
    EXPECT(write(from, new_code, 16) == 16 && lseek(from, 0, SEEK_SET) == 0);
    return from;
}

static void by_sendfile(int file) {
    int from = other_file(file);
    EXPECT(lseek(file, 0, SEEK_SET) == 0);
    EXPECT(sendfile(file, from, NULL, 16) == 16);
    close(from);
}

static void by_copy_file_range(int file) {
    int from = other_file(file);
    off_t to = 0;
    EXPECT(copy_file_range(from, NULL, file, &to, 16, 0) == 16);
    close(from);
}

static void by_splice(int file) {
    int ends[2];
    off_t to = 0;
    EXPECT(pipe(ends) == 0 && write(ends[1], new_code, 16) == 16);
    EXPECT(splice(ends[0], NULL, file, &to, 16, 0) == 16);
    close(ends[0]);
    close(ends[1]);
}

static void check_writes(const char *kind, const char *name, int flags, int opened_later) {
    static void (*const ways[])(int) = {by_pwrite,   by_write,           by_pwritev,
                                        by_sendfile, by_copy_file_range, by_splice};
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        int file = make(name), reader = name ? open(name, O_RDONLY) : dup(file);
        if (opened_later) EXPECT(close(file) == 0);
        unsigned char *place = map(CODE, flags, reader, 0);
        for (int number = 10; number < 13; number++) {
            EXPECT(run(place) == (number == 10 ? 1 : number - 1));
            write_answer(new_code, number);
            if (opened_later && number == 10) EXPECT((file = open(name, O_RDWR)) >= 0);
            ways[way](file);
        }
        EXPECT(run(place) == 12);
        EXPECT(munmap(place, PAGE) == 0 && close(file) == 0 && close(reader) == 0);
    }
    printf("written: %s\n", kind);
}

static void check_cuts(const char *kind, const char *name, int flags) {
    int file = make(name);
    unsigned char *place = map(CODE, flags, file, 0);
    EXPECT(run(place) == 1);
    EXPECT(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
    EXPECT(run(place) == -SIGSEGV);
    write_answer(new_code, 3);
    by_pwrite(file);
    EXPECT(run(place) == 3);
    EXPECT(ftruncate(file, 0) == 0);
    EXPECT(run(place) == -SIGBUS);
    EXPECT(ftruncate(file, PAGE) == 0);
    EXPECT(run(place) == -SIGSEGV);
    if (name) {
        by_pwrite(file);
        EXPECT(run(place) == 3);
        EXPECT(truncate(name, 0) == 0);
        EXPECT(run(place) == -SIGBUS);
        by_pwrite(file);
        EXPECT(run(place) == 3);
        EXPECT(close(open(name, O_RDWR | O_TRUNC)) == 0);
        EXPECT(run(place) == -SIGBUS);
    }
    EXPECT(munmap(place, PAGE) == 0 && close(file) == 0);
    printf("cut: %s\n", kind);
}

static void check_discards(void) {
    int file = make(NULL);
    // What the program has written gives way to what the file holds.
    unsigned char *place = map(ALL, MAP_PRIVATE, file, 0);
    for (int round = 0; round < 5; round++) {
        write_answer(place, 7 + round);
        EXPECT(run(place) == 7 + round);
        EXPECT(madvise(place, PAGE, MADV_DONTNEED) == 0);
        EXPECT(run(place) == 1);
    }
    // The same where it was protected meanwhile.
    write_answer(place, 20);
    EXPECT(mprotect(place, PAGE, CODE) == 0 && run(place) == 20);
    EXPECT(madvise(place, PAGE, MADV_DONTNEED) == 0 && run(place) == 1);
    EXPECT(munmap(place, PAGE) == 0);

    place = map(ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_answer(place, 5);
    EXPECT(run(place) == 5 && mprotect(place, PAGE, CODE) == 0 && run(place) == 5);
    EXPECT(madvise(place, PAGE, MADV_DONTNEED) == 0 && run(place) == -SIGSEGV);
    EXPECT(munmap(place, PAGE) == 0);

    place = map(ALL, MAP_SHARED, file, PAGE);
    unsigned char *view = map(CODE, MAP_SHARED, file, PAGE);
    EXPECT(run(place) == 2 && run(view) == 2);
    EXPECT(madvise(place, PAGE, MADV_REMOVE) == 0);
    EXPECT(run(place) == -SIGSEGV && run(view) == -SIGSEGV);
    write_answer(place, 6);
    EXPECT(run(place) == 6 && run(view) == 6);

    // The same mapping shows another page of the file.
    EXPECT(syscall(SYS_remap_file_pages, place, PAGE, 0, 0, 0) == 0);
    EXPECT(run(place) == 1 && run(view) == 6);
    write_answer(new_code, 8);
    EXPECT(pwrite(file, new_code, 16, PAGE) == 16);
    EXPECT(run(place) == 1 && run(view) == 8);
    write_answer(place, 9);
    EXPECT(run(place) == 9 && run(view) == 8);
    EXPECT(munmap(place, PAGE) == 0 && munmap(view, PAGE) == 0 && close(file) == 0);
    puts("discarded");
}

static void check_moves(void) {
    // The old place stays, empty.
    unsigned char *place = map(ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_answer(place, 4);
    EXPECT(mprotect(place, PAGE, CODE) == 0 && run(place) == 4);
    unsigned char *moved = mremap(place, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    EXPECT(moved != MAP_FAILED && run(moved) == 4 && run(place) == -SIGSEGV);
    EXPECT(munmap(place, PAGE) == 0 && munmap(moved, PAGE) == 0);
    puts("moved");
}

// Of a range with a hole the kernel protects what is before the hole, whether its code has run or
// not.
static void check_half_protected(int has_run) {
    unsigned char *place = mmap(NULL, 3 * PAGE, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(place != MAP_FAILED && munmap(place + PAGE, PAGE) == 0);
    write_answer(place, 1);
    if (has_run) EXPECT(run(place) == 1);
    EXPECT(mprotect(place, 3 * PAGE, CODE) == -1 && errno == ENOMEM);
    if (has_run) EXPECT(run(place) == 1);
    int signal = sigsetjmp(escape, 1);
    if (!signal) write_answer(place, 2);
    EXPECT(signal == SIGSEGV && run(place) == 1);
    write_answer(place + 2 * PAGE, 3);
    EXPECT(run(place + 2 * PAGE) == 3);
    EXPECT(munmap(place, 3 * PAGE) == 0);
    puts("half protected");
}

int main(void) {
    struct sigaction action = {.sa_sigaction = escape_from, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    check_writes("shared memory", NULL, MAP_SHARED, 0);
    check_writes("private view of memory", NULL, MAP_PRIVATE, 0);
    check_writes("shared file", "code", MAP_SHARED, 0);
    check_writes("private view of a file", "code", MAP_PRIVATE, 0);
    check_writes("shared file, opened later", "code", MAP_SHARED, 1);
    check_writes("private view of a file, opened later", "code", MAP_PRIVATE, 1);
    check_cuts("shared memory", NULL, MAP_SHARED);
    check_cuts("private view of memory", NULL, MAP_PRIVATE);
    check_cuts("shared file", "code", MAP_SHARED);
    check_cuts("private view of a file", "code", MAP_PRIVATE);
    check_discards();
    check_moves();
    check_half_protected(1);
    check_half_protected(0);
    unlink("code");
    return 0;
}
