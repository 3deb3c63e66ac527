// Flushes, prefetches, fences and data that bypasses the caches, each of every kind, with addresses
// of every form, and a loop whose instructions are known. Each prints what it is.
// flags: -O1
// needs: cpu clflushopt, cpu clwb, cpu avx
// compare: status
#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum { LINE = 64 };
static _Alignas(LINE) char lines[LINE * 64];
static int next;

/* Each time at another byte of another line. */
static char *somewhere(void)
{
    next++;
    return lines + LINE * next + next % 50;
}

#define LABEL(name) ".globl at_" #name "\n.hidden at_" #name "\nat_" #name ": "
#define PLACE(name) extern const char at_##name[] __attribute__((visibility("hidden")))

#define LINE_OPERATION(name)                                                         \
    do {                                                                             \
        PLACE(name);                                                                 \
        char *line = somewhere();                                                    \
        printf(#name " %lx %lx\n", (long)at_##name, (long)line);                     \
        __asm__ volatile(LABEL(name) #name " (%0)" ::"r"(line) : "memory");          \
    } while (0)

#define FENCE(name)                                                                  \
    do {                                                                             \
        PLACE(name);                                                                 \
        printf(#name " %lx\n", (long)at_##name);                                     \
        __asm__ volatile(LABEL(name) #name ::: "memory");                            \
    } while (0)

/* An access of SIZE aligned bytes; the instruction has the address in %0. */
#define ACCESS(name, kind, size, instruction)                                        \
    do {                                                                             \
        PLACE(name);                                                                 \
        char *line = lines + LINE * ++next;                                          \
        printf(kind " %lx %lx %d\n", (long)at_##name, (long)line, size);             \
        __asm__ volatile(LABEL(name) instruction ::"r"(line), "D"(line), "a"(7)      \
                         : "memory", "xmm0", "xmm1", "mm0", "ecx");                  \
    } while (0)

/* `loop` is two bytes; three rounds. */
__asm__(".text\n.globl counted, counted_end\n"
        "counted: mov $3, %ecx\n"        /* 5 bytes */
        "counted_round: nop\n"           /* 1 */
        "addl $1, (%rdi)\n"              /* 3 */
        "lea 8(%rsi), %rsi\n"            /* 4 */
        "dec %ecx\n"                     /* 2 */
        "jnz counted_round\n"            /* 2 */
        "xor %eax, %eax\n"               /* 2 */
        "ret\n"                          /* 1 */
        "counted_end:\n");
void counted(int *sum, char *pointer);

static void expect_instructions(void)
{
    static const int before[] = {5}, round[] = {1, 3, 4, 2, 2}, after[] = {2, 1};
    long pc = (long)counted;
    printf("instruction %lx %d\n", pc, before[0]);
    for (int i = 0; i < 3; i++) {
        pc = (long)counted + 5;
        for (int j = 0; j < 5; pc += round[j++])
            printf("instruction %lx %d\n", pc, round[j]);
    }
    for (int j = 0; j < 2; pc += after[j++])
        printf("instruction %lx %d\n", pc, after[j]);
}

int main(void)
{
    LINE_OPERATION(clflush);
    LINE_OPERATION(clflushopt);
    LINE_OPERATION(clwb);
    LINE_OPERATION(prefetcht0);
    LINE_OPERATION(prefetcht1);
    LINE_OPERATION(prefetcht2);
    LINE_OPERATION(prefetchnta);
    LINE_OPERATION(prefetchw);
    FENCE(mfence);
    FENCE(sfence);
    FENCE(lfence);

    PLACE(with_index);
    long index = 5;
    printf("prefetcht0 %lx %lx\n", (long)at_with_index, (long)(lines + 3 + 8 * index));
    __asm__ volatile(LABEL(with_index) "prefetcht0 3(%0,%1,8)" ::"r"(lines), "r"(index));
    PLACE(relative);
    printf("clflush %lx %lx\n", (long)at_relative, (long)(lines + 70));
    __asm__ volatile(LABEL(relative) "clflush %0" : "+m"(lines[70]));
    PLACE(of_thread);
    char *thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    printf("clwb %lx %lx\n", (long)at_of_thread, (long)(thread + 24));
    __asm__ volatile(LABEL(of_thread) "clwb %%fs:24" ::: "memory");
    PLACE(nowhere); /* which no page holds */
    printf("prefetcht1 %lx %lx\n", (long)at_nowhere, 0x10l);
    __asm__ volatile(LABEL(nowhere) "prefetcht1 (%0)" ::"r"(0x10l));

    _mm_empty();
    ACCESS(movnti, "non_temporal_write", 4, "movnti %%eax, (%0)");
    ACCESS(movntq, "non_temporal_write", 8, "movntq %%mm0, (%0)");
    ACCESS(movntdq, "non_temporal_write", 16, "movntdq %%xmm0, (%0)");
    ACCESS(movntps, "non_temporal_write", 16, "movntps %%xmm0, (%0)");
    ACCESS(movntdqa, "non_temporal_read", 16, "movntdqa (%0), %%xmm1");
    ACCESS(vmovntdq, "non_temporal_write", 32, "vmovntdq %%ymm0, (%0)");
    PLACE(maskmovdqu);
    char *masked = lines + LINE * ++next;
    printf("non_temporal_write %lx %lx 16\n", (long)at_maskmovdqu, (long)masked);
    __asm__ volatile("pcmpeqd %%xmm1, %%xmm1\n" LABEL(maskmovdqu) "maskmovdqu %%xmm1, %%xmm0" ::"D"(masked)
                     : "memory", "xmm1");
    ACCESS(mov, "write", 4, "mov %%eax, (%0)");
    ACCESS(movdqa, "read", 16, "movdqa (%0), %%xmm1");
    _mm_empty();

    int sum = 0;
    expect_instructions();
    fflush(stdout);
    counted(&sum, lines);
    EXPECT(sum == 3);
    return 0;
}
