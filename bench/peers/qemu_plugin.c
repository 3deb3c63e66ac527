// What three of our tools do, as a plugin of QEMU's user mode: counts instructions or basic blocks
// by additions that QEMU puts into its translations, or calls a function for each access that sums
// the addresses.
//
//     gcc -O2 -shared -fPIC qemu_plugin.c -o qemu_plugin.so
//     qemu-x86_64 -plugin ./qemu_plugin.so,what=instructions PROGRAM
//
// The functions are those of version 1 of the interface, declared here because no package of
// Debian's has them for its QEMU. Such additions are not atomic: of threads that share them, QEMU
// loses some.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 = 0, NO_REGISTERS = 0, READS_AND_WRITES = 3 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                              void *word, uint64_t number);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction,
                                      void (*call)(unsigned, uint32_t, uint64_t, void *),
                                      int registers, int accesses, void *data);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id, void *), void *data);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { MOST_THREADS = 256 };
static struct {
    uint64_t sum;
    char padding[56];
} sums[MOST_THREADS];
static uint64_t instructions;

// A counter of each translated block, in a list for the end.
struct counter {
    uint64_t count;
    struct counter *next;
};
static struct counter *counters;

static void count_instructions(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    uint64_t number = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions, number);
}

// QEMU translates under a lock of its own.
static void count_blocks(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    struct counter *counter = calloc(1, sizeof *counter);
    if (counter == NULL) abort();
    counter->next = counters;
    counters = counter;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &counter->count, 1);
}

static void add_address(unsigned thread, uint32_t access, uint64_t address, void *data) {
    (void)access;
    (void)data;
    sums[thread % MOST_THREADS].sum += address;
}

static void sum_addresses(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), add_address,
                                         NO_REGISTERS, READS_AND_WRITES, NULL);
}

static void at_end(plugin_id id, void *data) {
    (void)id;
    (void)data;
    uint64_t blocks = 0, sum = 0;
    for (struct counter *counter = counters; counter != NULL; counter = counter->next)
        blocks += counter->count;
    for (int thread = 0; thread < MOST_THREADS; thread++) sum += sums[thread].sum;
    fprintf(stderr, "%llu instructions, %llu blocks, sum of addresses %llx\n",
            (unsigned long long)instructions, (unsigned long long)blocks, (unsigned long long)sum);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *about,
                                                               int count, char **arguments) {
    (void)about;
    const char *what = count == 1 ? arguments[0] : "";
    if (strcmp(what, "what=instructions") == 0)
        qemu_plugin_register_vcpu_tb_trans_cb(id, count_instructions);
    else if (strcmp(what, "what=blocks") == 0)
        qemu_plugin_register_vcpu_tb_trans_cb(id, count_blocks);
    else if (strcmp(what, "what=addresses") == 0)
        qemu_plugin_register_vcpu_tb_trans_cb(id, sum_addresses);
    else
        return 1;
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
