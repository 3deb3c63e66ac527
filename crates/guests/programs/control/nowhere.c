// Branches to where nothing is (near the first address, far from everything, at the end, in the
// kernel's half) and to what is no address, by jump, call and return. Each ends as on the
// processor: with which signal, where, and with which registers.
// flags: -O1 -D_GNU_SOURCE
// variants: threaded
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#include "expect.h"

static sigjmp_buf back;
static uint64_t target;
extern char jump_place[], call_place[], return_place[], memory_place[];

static void handler(int signal, siginfo_t *information, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t pc = (uint64_t)registers[REG_RIP];
    const char *where = pc == target                   ? "target"
                        : pc == (uint64_t)jump_place   ? "jump"
                        : pc == (uint64_t)call_place   ? "call"
                        : pc == (uint64_t)return_place ? "return"
                        : pc == (uint64_t)memory_place ? "memory"
                                                       : "elsewhere";
    int address_is_target = information->si_addr == (void *)target;
    int kept = registers[REG_R11] == 0x1111 && registers[REG_RBX] == 0x2222 &&
               registers[REG_RCX] == 0x3333 && registers[REG_R10] == 0x4444;
    // What a call or a return leaves on the stack.
    long depth = registers[REG_RBP] - registers[REG_RSP];
    printf("%d code %d address %s trap %lld error %lld at %s depth %ld %s\n", signal,
           information->si_code,
           address_is_target ? "target" : information->si_addr == NULL ? "none" : "other",
           (long long)registers[REG_TRAPNO], (long long)registers[REG_ERR], where, depth,
           kept ? "kept" : "changed");
    siglongjmp(back, 1);
}

#define BRANCH(code)                                                                     \
    __asm__ volatile("mov %0, %%rax\n push %%rbp\n mov %%rsp, %%rbp\n sub $128, %%rsp\n" \
                     "mov $0x1111, %%r11d\n mov $0x2222, %%ebx\n mov $0x3333, %%ecx\n"   \
                     "mov $0x4444, %%r10d\n" code "\n ud2\n"                             \
                     :                                                                   \
                     : "r"(target), "r"(&target)                                         \
                     : "rax", "rbx", "rcx", "r10", "r11", "memory")

static __attribute__((noinline)) void jump(void) { BRANCH("jump_place: jmp *%%rax"); }
static __attribute__((noinline)) void call(void) { BRANCH("call_place: call *%%rax"); }
static __attribute__((noinline)) void by_return(void) { BRANCH("push %%rax\n return_place: ret"); }
static __attribute__((noinline)) void by_memory(void) { BRANCH("memory_place: jmp *(%1)"); }

static void go(const char *name, uint64_t where) {
    static void (*const ways[4])(void) = {jump, call, by_return, by_memory};
    for (int way = 0; way < 4; way++) {
        printf("%s, %d: ", name, way);
        fflush(stdout);
        target = where;
        if (sigsetjmp(back, 1) == 0)
            ways[way]();
    }
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGILL, &action, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        go("no address", 0x800000000000);
        go("no address", 0xdeadbeefdeadbeef);
        go("no address", 0x123456789abcdef0);
        go("no address", 0xffff7fffffffffff);
        go("the kernel's", 0xffff800000000000);
        go("the last one", 0xffffffffffffffff);
        go("an error number", (uint64_t)-22);
        go("nothing", 0);
        go("near nothing", 0x10);
        go("far", 0x300000000000);
        go("far", 0x60000000000);
        go("the end", 0x7ffffffff000);
    }
    return 0;
}
