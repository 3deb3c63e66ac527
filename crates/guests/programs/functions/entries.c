// Functions whose first instructions are of many kinds, each called as often as the argument
// says, some by several threads.
// flags: -O2 -pthread -fno-optimize-sibling-calls
// arguments: 1000

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int value = 5;

int rip_first(int), short_branch(int), calls_first(int), marked(int), called_itself(int);
int tiny(int), tiny_padded(int), loops_to_entry(int), entered_in_the_middle(int), enters(int);

__asm__(".macro function name\n"
        ".globl \\name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".endm\n"
        ".macro end name\n"
        ".size \\name, . - \\name\n"
        ".endm\n"
        ".text\n"
        // The first instruction's operand is relative to it.
        ".p2align 4\n function rip_first\n"
        "mov value(%rip), %eax\n add %edi, %eax\n ret\n end rip_first\n"
        // A short branch is among the first bytes.
        ".p2align 4\n function short_branch\n"
        "test %edi, %edi\n je 1f\n mov $1, %eax\n ret\n"
        "1: mov $2, %eax\n ret\n end short_branch\n"
        // A call is among them.
        ".p2align 4\n function calls_first\n"
        "sub $8, %rsp\n call rip_first\n add $8, %rsp\n add $1, %eax\n ret\n end calls_first\n"
        // A mark for indirect branches is in front.
        ".p2align 4\n function marked\n"
        "endbr64\n lea 1(%rdi), %eax\n nop\n nop\n ret\n end marked\n"
        // It calls itself.
        ".p2align 4\n function called_itself\n"
        "xor %eax, %eax\n sub $1, %edi\n js 1f\n push %rbx\n call called_itself\n pop %rbx\n"
        "1: add $1, %eax\n ret\n end called_itself\n"
        // Three bytes, with nothing behind.
        ".p2align 4\n function tiny_padded\n"
        "mov %edi, %eax\n ret\n end tiny_padded\n"
        // Three bytes, with another function behind.
        ".p2align 4\n function tiny\n"
        "mov %edi, %eax\n ret\n end tiny\n"
        "1: ret\n"
        // Its beginning is that of a loop.
        ".p2align 4\n function loops_to_entry\n"
        "dec %edi\n jg loops_to_entry\n mov %edi, %eax\n ret\n end loops_to_entry\n"
        // Another function goes on in its first bytes.
        ".p2align 4\n function entered_in_the_middle\n"
        "xor %eax, %eax\n 1: add $3, %eax\n add %edi, %eax\n ret\n end entered_in_the_middle\n"
        ".p2align 4\n function enters\n"
        "mov $10, %eax\n jmp 1b\n end enters\n");

static int twice(int number) { return 2 * number; }
static int thrice(int number) { return 3 * number; }
static int (*resolve_chosen(void))(int) { return value == 5 ? twice : thrice; }
int chosen(int) __attribute__((ifunc("resolve_chosen")));

__attribute__((noinline)) long six(long a, long b, long c, long d, long e, long f) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}

__attribute__((noinline)) double mixed(int a, double b, long c, float d) {
    return a + b * 2 + (double)c * 3 + d * 4;
}

// Its callers need not keep what it does not touch, because their compiler sees that.
static __attribute__((noinline)) long leaf(long number) { return number ^ 3; }

static __attribute__((noinline)) long relies(long rounds, long seed) {
    long a = seed, b = seed * 3, c = seed * 5, d = seed * 7, e = seed * 11, f = seed * 13;
    double x = (double)seed, y = x * 3, z = x * 5;
    for (long round = 0; round < rounds; round++) {
        long got = leaf(round);
        a += got, b ^= a, c += b, d ^= c, e += d, f ^= e;
        x += (double)got, y += x * 0.5, z += y * 0.25;
    }
    return a ^ b ^ c ^ d ^ e ^ f ^ (long)(x + y + z);
}

__attribute__((noinline)) long shared(long number) {
    __asm__ volatile("" : "+r"(number));
    return number + 1;
}

static void *work(void *rounds) {
    long sum = 0;
    for (long round = 0; round < (long)rounds; round++)
        sum += shared(round);
    return (void *)sum;
}

int main(int count, char **arguments) {
    long rounds = count > 1 ? atol(arguments[1]) : 0;
    long sum = 0;
    double floating = 0;
    for (int round = 0; round < rounds; round++) {
        sum += rip_first(round) + short_branch(round % 3) + calls_first(round) + marked(round);
        sum += called_itself(3) + tiny(round) + tiny_padded(round) + loops_to_entry(4);
        sum += entered_in_the_middle(round) + enters(round) + chosen(round);
        sum += six(round, 1, 2, 3, 4, round);
        floating += mixed(round, 1.5, 2, 2.5f);
    }
    sum += relies(rounds, 17);
    pthread_t threads[4];
    for (int number = 0; number < 4; number++)
        if (pthread_create(&threads[number], NULL, work, (void *)rounds) != 0)
            return 1;
    for (int number = 0; number < 4; number++) {
        void *result;
        pthread_join(threads[number], &result);
        sum += (long)result;
    }
    printf("%ld %f\n", sum, floating);
    return 0;
}
