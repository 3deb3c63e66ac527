// The kernel writes over code that has run: by read and its kin, into pages that are writable, and
// through /proc/self/mem and process_vm_writev. Each time all of it is written, and the new code
// runs; also while another thread runs the code all the time.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "answer.h"
#include "expect.h"

#define SIZE 12288
#define AT 8192
#define ROUNDS 200

static unsigned char content[SIZE];
static int file, memory;
static unsigned char *code;

static void prepare(int number) { write_answer(content + AT, number); }

static void rewrite_file(int number) {
    prepare(number);
    EXPECT(pwrite(file, content, SIZE, 0) == SIZE);
}

static void by_pread(int number) {
    rewrite_file(number);
    EXPECT(pread(file, code, SIZE, 0) == SIZE);
}

static void by_read(int number) {
    rewrite_file(number);
    EXPECT(lseek(file, 0, SEEK_SET) == 0);
    EXPECT(read(file, code, SIZE) == SIZE);
}

static void by_readv(int number) {
    struct iovec parts[] = {{code, 100}, {code + 100, AT - 100}, {code + AT, SIZE - AT}};
    rewrite_file(number);
    EXPECT(preadv(file, parts, 3, 0) == SIZE);
}

static void by_message(int number) {
    struct iovec part = {code, SIZE};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int sockets[2];
    prepare(number);
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    EXPECT(send(sockets[0], content, SIZE, 0) == SIZE);
    EXPECT(recvmsg(sockets[1], &message, 0) == SIZE);
    close(sockets[0]);
    close(sockets[1]);
}

static void by_memory_file(int number) {
    prepare(number);
    EXPECT(pwrite(memory, content, SIZE, (off_t)(uintptr_t)code) == SIZE);
}

static void by_memory_file_from_position(int number) {
    struct iovec parts[] = {{content, 100}, {content + 100, SIZE - 100}};
    prepare(number);
    EXPECT(lseek(memory, (off_t)(uintptr_t)code, SEEK_SET) == (off_t)(uintptr_t)code);
    EXPECT(writev(memory, parts, 2) == SIZE);
}

static void by_copy(int number) {
    struct iovec from = {content, SIZE}, to[] = {{code, 100}, {code + 100, SIZE - 100}};
    prepare(number);
    EXPECT(process_vm_writev(getpid(), &from, 1, to, 2, 0) == SIZE);
}

static int stop, running;

static void *run(void *nothing) {
    int last = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        int number = call(code + AT);
        EXPECT(number >= last && number <= ROUNDS);
        last = number;
        __atomic_store_n(&running, 1, __ATOMIC_RELEASE);
    }
    return nothing;
}

static void check(const char *name, void (*write_code)(int), int protection) {
    code = mmap(NULL, SIZE, protection | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    for (int number = 1; number < 10; number++) {
        write_code(number);
        EXPECT(call(code + AT) == number);
        EXPECT(memcmp(code, content, SIZE) == 0);
    }
    // Beside another thread only the lowest byte of the number changes: it is whole or not.
    pthread_t other;
    write_code(0);
    stop = running = 0;
    EXPECT(pthread_create(&other, NULL, run, NULL) == 0);
    while (!__atomic_load_n(&running, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int number = 0; number <= ROUNDS; number++)
        write_code(number);
    EXPECT(call(code + AT) == ROUNDS);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    EXPECT(pthread_join(other, NULL) == 0);
    EXPECT(munmap(code, SIZE) == 0);
    printf("%s: right\n", name);
}

int main(void) {
    char name[] = "code-XXXXXX";
    memset(content, 0x90, SIZE);
    EXPECT((file = mkstemp(name)) >= 0 && unlink(name) == 0);
    EXPECT((memory = open("/proc/self/mem", O_RDWR)) >= 0);
    check("pread", by_pread, PROT_READ | PROT_WRITE);
    check("read", by_read, PROT_READ | PROT_WRITE);
    check("readv", by_readv, PROT_READ | PROT_WRITE);
    check("recvmsg", by_message, PROT_READ | PROT_WRITE);
    check("process_vm_writev", by_copy, PROT_READ | PROT_WRITE);
    check("memory file, writable", by_memory_file, PROT_READ | PROT_WRITE);
    check("memory file, read-only", by_memory_file, PROT_READ);
    check("memory file from its position", by_memory_file_from_position, PROT_READ);
    return 0;
}
