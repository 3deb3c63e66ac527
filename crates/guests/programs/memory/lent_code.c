// Code in memory that is mapped twice, for writing and for execution, of which children get a
// copy by fork: children that execute another program, that write, that leave it to their own
// children, that fail to execute; and processes to which the memory is sent. Whoever writes, the
// next call does what was written; and where nobody else can write any more, a call is no dearer
// than before.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "answer.h"
#include "expect.h"

#define SIZE 8192
#define AT 64

struct code {
    int memory;
    unsigned char *writable, *executable;
};

static struct code make_code(int keep) {
    struct code made = {.memory = memfd_create("code", MFD_CLOEXEC)};
    EXPECT(made.memory >= 0 && ftruncate(made.memory, SIZE) == 0);
    made.writable = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, made.memory, 0);
    made.executable = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, made.memory, 0);
    EXPECT(made.writable != MAP_FAILED && made.executable != MAP_FAILED);
    if (!keep)
        EXPECT(close(made.memory) == 0);
    return made;
}

static void expect_answers(struct code code, int first) {
    for (int i = first; i < first + 20; i++) {
        write_answer(code.writable + AT, i);
        EXPECT(call(code.executable + AT) == i);
        EXPECT(call(code.executable + AT) == i);
    }
}

static long time_calls_ns(struct code code) {
    struct timespec begin, end;
    EXPECT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin) == 0);
    for (int i = 0; i < 200000; i++)
        EXPECT(call(code.executable + AT) >= 0);
    EXPECT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end) == 0);
    return (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
}

static void expect_end(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void execute(void) {
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
}

// A child that has executed something else has nothing any more, even while it lives.
static void lend_to_program(void) {
    struct code code = make_code(0);
    expect_answers(code, 0);
    long before = time_calls_ns(code);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        execute();
    expect_end(child);
    expect_answers(code, 50);
    // The memory is found to be given back after some calls.
    for (int i = 0; i < 20 && time_calls_ns(code) > 40 * before; i++)
        ;
    long after = time_calls_ns(code);
    if (after > 40 * before)
        fprintf(stderr, "%ld ns before, %ld ns after\n", before, after);
    EXPECT(after <= 40 * before);
    expect_answers(code, 100);
}

// A child, or a child's child, that writes code whenever it gets a byte.
struct writer {
    int orders[2], answers[2];
};

static struct writer make_writer(void) {
    struct writer writer;
    EXPECT(pipe(writer.orders) == 0 && pipe(writer.answers) == 0);
    return writer;
}

static void serve(struct writer writer, unsigned char *writable) {
    unsigned char number;
    close(writer.orders[1]);
    close(writer.answers[0]);
    while (read(writer.orders[0], &number, 1) == 1) {
        write_answer(writable + AT, number);
        EXPECT(write(writer.answers[1], &number, 1) == 1);
    }
    _exit(0);
}

static void expect_served(struct writer writer, struct code code, int first) {
    for (int i = first; i < first + 40; i++) {
        unsigned char number = (unsigned char)i;
        EXPECT(write(writer.orders[1], &number, 1) == 1);
        EXPECT(read(writer.answers[0], &number, 1) == 1);
        EXPECT(call(code.executable + AT) == i);
        EXPECT(call(code.executable + AT) == i);
    }
}

static void stop(struct writer writer) {
    close(writer.orders[1]);
    close(writer.answers[0]);
}

enum borrower { WRITES, FAILS_TO_EXECUTE, HAS_A_CHILD, PROTECTS, MOVES, HAS_DESCRIPTOR, BORROWERS };

static void borrow(enum borrower how, struct writer writer, struct code code) {
    unsigned char *writable = code.writable;
    switch (how) {
    case FAILS_TO_EXECUTE:
        execl("/no/such/program", "program", (char *)NULL);
        EXPECT(errno == ENOENT);
        break;
    case HAS_A_CHILD:
        if (fork() != 0)
            _exit(0);
        break;
    case PROTECTS:
        EXPECT(mprotect(writable, SIZE, PROT_NONE) == 0);
        usleep(30000);
        EXPECT(mprotect(writable, SIZE, PROT_READ | PROT_WRITE) == 0);
        break;
    case MOVES: {
        unsigned char *free_place = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(free_place != MAP_FAILED);
        writable = mremap(writable, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, free_place);
        EXPECT(writable == free_place);
        EXPECT(munmap(code.executable, SIZE) == 0);
        break;
    }
    case HAS_DESCRIPTOR:
        EXPECT(munmap(writable, SIZE) == 0 && munmap(code.executable, SIZE) == 0);
        usleep(30000);
        writable = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, code.memory, 0);
        EXPECT(writable != MAP_FAILED);
        break;
    default:
        break;
    }
    serve(writer, writable);
}

static void lend_to_child(enum borrower how) {
    struct code code = make_code(how == HAS_DESCRIPTOR);
    struct writer writer = make_writer();
    expect_answers(code, 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        borrow(how, writer, code);
    // Another child comes and goes meanwhile.
    pid_t other = fork();
    EXPECT(other >= 0);
    if (other == 0)
        execute();
    expect_end(other);
    close(writer.orders[0]);
    close(writer.answers[1]);
    if (how == HAS_A_CHILD)
        expect_end(child);
    for (int i = 0; i < 3; i++) {
        expect_answers(code, 100 * i);
        for (int j = 0; j < 3000; j++)
            EXPECT(call(code.executable + AT) == 100 * i + 19);
        usleep(3000);
        expect_served(writer, code, 50 * i);
    }
    stop(writer);
    if (how != HAS_A_CHILD)
        expect_end(child);
}

static void send_memory(int socket, int memory) {
    char byte = 0;
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &memory, sizeof(int));
    EXPECT(sendmsg(socket, &message, 0) == 1);
}

static int receive_memory(int socket) {
    char byte;
    struct iovec data = {&byte, 1};
    char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    EXPECT(recvmsg(socket, &message, 0) == 1);
    int memory;
    memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return memory;
}

// The memory goes to a process that was there before it, or comes from there.
static void pass_memory(int comes) {
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    struct writer writer = make_writer();
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        close(sockets[0]);
        int memory;
        if (comes) {
            memory = make_code(1).memory;
            send_memory(sockets[1], memory);
        } else {
            memory = receive_memory(sockets[1]);
        }
        unsigned char *writable =
            mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        EXPECT(writable != MAP_FAILED);
        serve(writer, writable);
    }
    struct code code;
    if (comes) {
        code.memory = receive_memory(sockets[0]);
        code.writable = NULL;
        code.executable = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, code.memory, 0);
        EXPECT(code.executable != MAP_FAILED);
    } else {
        code = make_code(1);
        expect_answers(code, 0);
        send_memory(sockets[0], code.memory);
    }
    close(code.memory);
    close(writer.orders[0]);
    close(writer.answers[1]);
    expect_served(writer, code, 5);
    stop(writer);
    expect_end(child);
}

int main(void) {
    lend_to_program();
    for (enum borrower how = WRITES; how < BORROWERS; how++)
        lend_to_child(how);
    pass_memory(0);
    pass_memory(1);
    puts("as written");
    return 0;
}
