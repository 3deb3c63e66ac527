// io_uring by its system calls: the kernel reads requests from shared memory, and writes
// results and data into the program's, without a call for each.
// flags: -O2 -D_GNU_SOURCE
// needs: file /usr/include/linux/io_uring.h
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "expect.h"

enum { ENTRIES = 8, BLOCK = 4096, BLOCKS = 64 };

static int ring;
static char *requests_ring, *results_ring;
static struct io_uring_sqe *requests;
static struct io_uring_params parameters;

static void *map(size_t size, off_t offset) {
    void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
    EXPECT(area != MAP_FAILED);
    return area;
}

static void submit(int operation, int file, void *buffer, unsigned size, long offset, long tag) {
    _Atomic unsigned *tail = (void *)(requests_ring + parameters.sq_off.tail);
    unsigned mask = *(unsigned *)(requests_ring + parameters.sq_off.ring_mask);
    unsigned *array = (void *)(requests_ring + parameters.sq_off.array);
    unsigned index = atomic_load(tail) & mask;
    memset(&requests[index], 0, sizeof requests[index]);
    requests[index].opcode = (unsigned char)operation;
    requests[index].fd = file;
    requests[index].addr = (unsigned long)buffer;
    requests[index].len = size;
    requests[index].off = (unsigned long)offset;
    requests[index].user_data = (unsigned long)tag;
    array[index] = index;
    atomic_fetch_add(tail, 1);
}

static long wait_for_one(int *result) {
    _Atomic unsigned *head = (void *)(results_ring + parameters.cq_off.head);
    _Atomic unsigned *tail = (void *)(results_ring + parameters.cq_off.tail);
    unsigned mask = *(unsigned *)(results_ring + parameters.cq_off.ring_mask);
    struct io_uring_cqe *results = (void *)(results_ring + parameters.cq_off.cqes);
    while (atomic_load(head) == atomic_load(tail))
        EXPECT(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0);
    struct io_uring_cqe *one = &results[atomic_load(head) & mask];
    long tag = (long)one->user_data;
    *result = one->res;
    atomic_fetch_add(head, 1);
    return tag;
}

int main(void) {
    ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &parameters);
    if (ring < 0) {
        printf("refused: %s\n", strerror(errno));
        return 0;
    }
    requests_ring = map(parameters.sq_off.array + parameters.sq_entries * 4, IORING_OFF_SQ_RING);
    results_ring = map(parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe),
                       IORING_OFF_CQ_RING);
    requests = map(parameters.sq_entries * sizeof *requests, IORING_OFF_SQES);

    int file = open("ring", O_RDWR | O_CREAT | O_TRUNC, 0600);
    static char written[BLOCKS][BLOCK], got[BLOCKS][BLOCK];
    int result;
    for (int i = 0; i < BLOCKS; i++) {
        memset(written[i], i + 1, BLOCK);
        submit(IORING_OP_WRITE, file, written[i], BLOCK, (long)i * BLOCK, i);
        EXPECT(syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1);
        EXPECT(wait_for_one(&result) == i && result == BLOCK);
    }
    // Several at once, in any order.
    for (int i = 0; i < BLOCKS; i += 4) {
        for (int j = 0; j < 4; j++)
            submit(IORING_OP_READ, file, got[i + j], BLOCK, (long)(i + j) * BLOCK, i + j);
        EXPECT(syscall(SYS_io_uring_enter, ring, 4, 4, IORING_ENTER_GETEVENTS, NULL, 0) == 4);
        int seen = 0;
        for (int j = 0; j < 4; j++) {
            long tag = wait_for_one(&result);
            EXPECT(tag >= i && tag < i + 4 && result == BLOCK);
            seen |= 1 << (tag - i);
        }
        EXPECT(seen == 15);
    }
    EXPECT(memcmp(written, got, sizeof got) == 0);
    submit(IORING_OP_READ, 999, got, 1, 0, 77);
    EXPECT(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    EXPECT(wait_for_one(&result) == 77 && result == -EBADF);
    unlink("ring");
    puts("written and read");
    return 0;
}
