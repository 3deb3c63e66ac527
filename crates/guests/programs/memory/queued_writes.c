// The kernel writes over code that has run, for requests that no system call waits for: reads of
// io_uring into pages that are writable, into registered buffers, and into another mapping of the
// code, taken by a call or by the kernel itself, done at once or much later; and those of
// io_submit. Each time all of it is written, and the new code runs.
// flags: -O2 -D_GNU_SOURCE
// needs: file /usr/include/linux/io_uring.h
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "answer.h"
#include "expect.h"

enum { PAGE = 4096, SIZE = 3 * PAGE, AT = PAGE + 100, ROUNDS = 10 };
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)

static int ring, file, ends[2];
static struct io_uring_params parameters;
static char *state;
static struct io_uring_sqe *requests;
// What is written into, and where it runs.
static unsigned char *buffer, *code;
static unsigned char content[SIZE];

static int set_up(unsigned flags) {
    memset(&parameters, 0, sizeof parameters);
    parameters.flags = flags;
    ring = (int)syscall(SYS_io_uring_setup, 8, &parameters);
    if (ring < 0) return 0;
    EXPECT(parameters.features & IORING_FEAT_SINGLE_MMAP);
    size_t size = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    size_t other = parameters.sq_off.array + parameters.sq_entries * 4;
    state = mmap(NULL, size > other ? size : other, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    requests = mmap(NULL, parameters.sq_entries * sizeof *requests, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    EXPECT(state != MAP_FAILED && requests != MAP_FAILED);
    return 1;
}

static void submit(int operation, int from, void *address, unsigned length) {
    _Atomic unsigned *tail = (void *)(state + parameters.sq_off.tail);
    unsigned index = atomic_load(tail) & (parameters.sq_entries - 1);
    requests[index] = (struct io_uring_sqe){.opcode = (unsigned char)operation,
                                            .fd = from,
                                            .addr = (unsigned long)address,
                                            .len = length};
    ((unsigned *)(void *)(state + parameters.sq_off.array))[index] = index;
    atomic_fetch_add(tail, 1);
    if (parameters.flags & IORING_SETUP_SQPOLL) {
        _Atomic unsigned *flags = (void *)(state + parameters.sq_off.flags);
        if (atomic_load(flags) & IORING_SQ_NEED_WAKEUP)
            EXPECT(syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) >= 0);
    } else {
        EXPECT(syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1);
    }
}

static int result(void) {
    _Atomic unsigned *head = (void *)(state + parameters.cq_off.head);
    _Atomic unsigned *tail = (void *)(state + parameters.cq_off.tail);
    struct io_uring_cqe *results = (void *)(state + parameters.cq_off.cqes);
    while (atomic_load(head) == atomic_load(tail))
        EXPECT(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0);
    return results[atomic_fetch_add(head, 1) & (parameters.cq_entries - 1)].res;
}

static void prepare(int number) {
    write_answer(content + AT, number);
    EXPECT(pwrite(file, content, SIZE, 0) == SIZE);
}

static void by_read(int number) {
    prepare(number);
    submit(IORING_OP_READ, file, buffer, SIZE);
    EXPECT(result() == SIZE);
}

static void by_readv(int number) {
    struct iovec parts[] = {{buffer, AT + 2}, {buffer + AT + 2, SIZE - AT - 2}};
    prepare(number);
    submit(IORING_OP_READV, file, parts, 2);
    EXPECT(result() == SIZE);
}

static void by_read_into_registered(int number) {
    prepare(number);
    submit(IORING_OP_READ_FIXED, file, buffer, SIZE);
    EXPECT(result() == SIZE);
}

// The request waits for data while the old code runs.
static void late(int number) {
    unsigned char new_code[6];
    write_answer(new_code, number);
    submit(IORING_OP_READ, ends[0], buffer + AT, sizeof new_code);
    for (int i = 0; i < 3; i++) EXPECT(call(code + AT) == number - 1);
    EXPECT(write(ends[1], new_code, sizeof new_code) == sizeof new_code);
    EXPECT(result() == sizeof new_code);
    memcpy(content + AT, new_code, sizeof new_code);
}

static aio_context_t context;

static void by_io_submit(int number) {
    struct iocb request = {.aio_lio_opcode = IOCB_CMD_PREAD,
                           .aio_fildes = (unsigned)file,
                           .aio_buf = (unsigned long)buffer,
                           .aio_nbytes = SIZE};
    struct iocb *all[] = {&request};
    struct io_event event;
    prepare(number);
    EXPECT(syscall(SYS_io_submit, context, 1, all) == 1);
    EXPECT(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == SIZE);
}

static void check(const char *name, void (*write_code)(int)) {
    int first = *(int *)(void *)(content + AT + 1);
    for (int number = first + 1; number <= first + ROUNDS; number++) {
        write_code(number);
        EXPECT(call(code + AT) == number && memcmp(code, content, SIZE) == 0);
    }
    // The program still writes there itself.
    write_answer(buffer + AT, first);
    EXPECT(call(code + AT) == first);
    write_answer(buffer + AT, first + ROUNDS);
    EXPECT(call(code + AT) == first + ROUNDS);
    printf("%s: right\n", name);
}

static void map_code(int shared) {
    if (shared) {
        int memory = memfd_create("code", 0);
        EXPECT(memory >= 0 && ftruncate(memory, SIZE) == 0);
        buffer = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        code = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
        EXPECT(close(memory) == 0);
    } else {
        buffer = code = mmap(NULL, SIZE, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    EXPECT(buffer != MAP_FAILED && code != MAP_FAILED);
    memcpy(buffer, content, SIZE);
    EXPECT(call(code + AT) == *(int *)(void *)(content + AT + 1));
}

static void check_ring(int polled, int shared) {
    map_code(shared);
    printf("%s, %s\n", polled ? "taken by the kernel" : "taken by a call",
           shared ? "two mappings" : "one mapping");
    check("read", by_read);
    check("readv", by_readv);
    check("late", late);
    struct iovec whole = {buffer, SIZE};
    EXPECT(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &whole, 1) == 0);
    check("registered", by_read_into_registered);
    EXPECT(syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
    EXPECT(munmap(code, SIZE) == 0);
    if (shared) EXPECT(munmap(buffer, SIZE) == 0);
}

int main(void) {
    memset(content, 0x90, SIZE);
    write_answer(content + AT, 0);
    EXPECT((file = open(".", O_RDWR | O_TMPFILE, 0600)) >= 0 && pipe(ends) == 0);
    for (int polled = 0; polled < 2; polled++) {
        if (!set_up(polled ? IORING_SETUP_SQPOLL : 0)) {
            printf("refused: %s\n", strerror(errno));
            continue;
        }
        check_ring(polled, 0);
        check_ring(polled, 1);
        if (!polled && syscall(SYS_io_setup, 8, &context) == 0) {
            map_code(0);
            check("io_submit", by_io_submit);
        }
    }
    return 0;
}
