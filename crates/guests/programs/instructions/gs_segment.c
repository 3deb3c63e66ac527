// Memory in the GS segment: loads, stores, atomic, vector and read-modify-write instructions with
// every kind of address, calls through it, in several threads with bases of their own, across
// signals and forks; the base itself, as instructions and system calls read and write it.
// flags: -O1 -D_GNU_SOURCE -pthread -mfsgsbase -mavx2
// needs: cpu avx2, cpu fsgsbase
#include <asm/prctl.h>
#include <immintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "expect.h"

#define WORDS 512
static __thread long own_word = 77;

static uint64_t base_by_call(void) {
    uint64_t base = 1;
    EXPECT(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0);
    return base;
}

static long seven(long x) { return x + 7; }

static void use_all_addresses(uint64_t *memory) {
    uint64_t got, index = 3, offset = 40;
    memory[5] = 0x1122334455667788;
    memory[6] = 60;
    __asm__ volatile("mov %%gs:(%1), %0" : "=r"(got) : "r"(offset) : "memory");
    EXPECT(got == memory[5]);
    __asm__ volatile("mov %%gs:40, %0" : "=r"(got) : : "memory");
    EXPECT(got == memory[5]);
    __asm__ volatile("mov %%gs:24(%1,%2,8), %k0" : "=r"(got) : "r"(-8L), "r"(index) : "memory");
    EXPECT(got == 0x55667788);
    __asm__ volatile("movzbl %%gs:17(,%1,8), %k0" : "=r"(got) : "r"(index) : "memory");
    EXPECT(got == 0x77);
    // Cut to 32 bits before the base is added.
    __asm__ volatile("mov %%gs:0x10(%k1), %0" : "=r"(got) : "r"(0xdead00000018) : "memory");
    EXPECT(got == memory[5]);
    // Registers whose encodings need more, and the stack pointer.
    register uint64_t r12 __asm__("r12") = 40, r13 __asm__("r13") = 40, r15 __asm__("r15");
    __asm__ volatile("mov %%gs:(%1), %0" : "=r"(r15) : "r"(r12) : "memory");
    EXPECT(r15 == memory[5]);
    __asm__ volatile("lock addq $2, %%gs:8(%0)" : : "r"(r13) : "memory", "cc");
    EXPECT(memory[6] == 62);
    __asm__ volatile("mov %%rsp, %%rcx\n xor %%esp, %%esp\n mov %%gs:48(%%rsp), %0\n"
                     "mov %%rcx, %%rsp"
                     : "=r"(got)
                     :
                     : "rcx", "memory");
    EXPECT(got == 62);
    __asm__ volatile("movl $0x1234567, %%gs:0x80(%0)" : : "r"(r12) : "memory");
    EXPECT((uint32_t)memory[21] == 0x1234567);
    __asm__ volatile("movw $0x4321, %%gs:0xa8" : : : "memory");
    EXPECT((uint16_t)memory[21] == 0x4321);
    uint64_t old = 62;
    unsigned char equal;
    __asm__ volatile("lock cmpxchgq %3, %%gs:48\n sete %1"
                     : "+a"(old), "=r"(equal)
                     : "m"(*memory), "r"(99UL)
                     : "memory", "cc");
    EXPECT(equal && memory[6] == 99);
    __asm__ volatile("stc\n mov %%gs:48, %0\n adc $0, %0" : "=r"(got) : : "memory", "cc");
    EXPECT(got == 100);
    // Vectors, with displacements that are scaled, in both encodings.
    for (int i = 0; i < 16; i++)
        ((uint32_t *)memory)[128 + i] = i * 3;
    uint32_t sum[8];
    register uint64_t r14 __asm__("r14") = 256;
    __asm__ volatile("vmovdqu %%gs:0x100(%1), %%ymm1\n vpaddd %%gs:32(%1,%2), %%ymm1, %%ymm1\n"
                     "vmovdqu %%ymm1, %0\n vzeroupper"
                     : "=m"(sum)
                     : "r"(r14), "r"(256UL)
                     : "xmm1", "memory");
    for (int i = 0; i < 8; i++)
        EXPECT(sum[i] == (uint32_t)(i * 3 + (i + 8) * 3));
    __asm__ volatile("movdqu %%gs:(%1), %%xmm2\n pshufd $0x1b, %%gs:(%1), %%xmm3\n"
                     "movq %%xmm3, %0"
                     : "=r"(got)
                     : "r"(512UL)
                     : "xmm2", "xmm3", "memory");
    EXPECT(got == (6UL << 32 | 9));
}

static void use_calls(uint64_t *memory) {
    uint64_t got;
    memory[7] = (uint64_t)seven;
    long called;
    __asm__ volatile("mov %%rsp, %%rbx\n sub $128, %%rsp\n and $-16, %%rsp\n mov $35, %%edi\n"
                     "call *%%gs:56\n mov %%rbx, %%rsp"
                     : "=a"(called)
                     :
                     : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
                       "cc");
    EXPECT(called == 42);
    __asm__ volatile("push %%gs:40\n pop %0" : "=r"(got) : : "memory");
    EXPECT(got == memory[5]);
}

static atomic_int signals;
static void count(int signal) {
    (void)signal;
    // In a handler the base is what it was.
    EXPECT(_readgsbase_u64() == base_by_call());
    atomic_fetch_add(&signals, 1);
}

static void *work(void *argument) {
    uint64_t inherited = (uint64_t)argument;
    EXPECT(_readgsbase_u64() == inherited);
    uint64_t *memory = calloc(WORDS, 8);
    for (int round = 0; round < 3000; round++) {
        _writegsbase_u64((uint64_t)memory);
        EXPECT(own_word == 77);
        memory[1] = round;
        for (int i = 0; i < 10; i++)
            __asm__ volatile("incq %%gs:8" : : : "memory", "cc");
        EXPECT(memory[1] == (uint64_t)round + 10);
        EXPECT(_readgsbase_u64() == (uint64_t)memory);
    }
    use_calls(memory);
    free(memory);
    return NULL;
}

static sigjmp_buf back;
static void escape(int signal, siginfo_t *information, void *context) {
    (void)context;
    printf("signal %d code %d\n", signal, information->si_code);
    siglongjmp(back, 1);
}

static void faults(uint64_t *memory) {
    struct sigaction action = {.sa_sigaction = escape, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
    if (sigsetjmp(back, 1) == 0) {
        __asm__ volatile("mov %%gs:(%0), %%rax" : : "r"(-(uint64_t)memory + 16) : "rax", "memory");
        EXPECT(0);
    }
    if (sigsetjmp(back, 1) == 0) {
        _writegsbase_u64(0x8000000000000000);
        EXPECT(0);
    }
    EXPECT(_readgsbase_u64() == (uint64_t)memory);
}

int main(void) {
    EXPECT(getauxval(AT_HWCAP2) & 2);
    EXPECT(_readgsbase_u64() == 0 && base_by_call() == 0);
    uint64_t *memory = calloc(WORDS, 8);
    _writegsbase_u64((uint64_t)memory);
    EXPECT(base_by_call() == (uint64_t)memory && _readgsbase_u32() == (uint32_t)(uint64_t)memory);
    use_all_addresses(memory);
    use_calls(memory);
    faults(memory);

    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {.it_interval = {0, 500}, .it_value = {0, 500}};
    EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, memory) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    while (atomic_load(&signals) < 3)
        ;
    struct itimerval never = {0};
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);

    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        use_calls(memory);
        _exit(_readgsbase_u64() == (uint64_t)memory ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);

    EXPECT(syscall(SYS_arch_prctl, ARCH_SET_GS, memory + 8) == 0);
    uint64_t got;
    memory[9] = 123;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(got) : : "memory");
    EXPECT(got == 123 && own_word == 77);
    _writegsbase_u32(0x1000);
    EXPECT(base_by_call() == 0x1000);
    puts("all addresses");
    return 0;
}
