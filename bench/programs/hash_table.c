/* An open-addressing hash table with linear probing: inserts, look-ups and deletions at
 * random, mostly cache misses. Argument: number of operations in thousands. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 20, KEYS = 1 << 20 };

struct slot {
    uint64_t key; /* 0: empty */
    uint64_t value;
};

static struct slot slots[SLOTS];
static unsigned used;

static uint64_t hash(uint64_t key) { return key * 0x9e3779b97f4a7c15u >> 44; }

/* The key's slot, or the empty one where it would go. */
static uint64_t find(uint64_t key)
{
    uint64_t at = hash(key);
    while (slots[at].key != 0 && slots[at].key != key)
        at = (at + 1) & (SLOTS - 1);
    return at;
}

/* Closes the gap, so that no search ends too early. */
static void erase(uint64_t gap)
{
    uint64_t at = gap;
    slots[gap].key = 0;
    used--;
    for (;;) {
        at = (at + 1) & (SLOTS - 1);
        if (slots[at].key == 0)
            return;
        uint64_t home = hash(slots[at].key);
        if (((at - home) & (SLOTS - 1)) >= ((at - gap) & (SLOTS - 1))) {
            slots[gap] = slots[at];
            slots[at].key = 0;
            gap = at;
        }
    }
}

int main(int argc, char **argv)
{
    unsigned long operations = (argc > 1 ? strtoul(argv[1], NULL, 0) : 100) * 1000;
    uint64_t state = 1, sum = 0;
    for (unsigned long i = 0; i < operations; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = (state >> 32) % KEYS + 1;
        uint64_t at = find(key);
        if (slots[at].key == 0) {
            if ((state >> 20 & 3) != 0 && used < SLOTS / 4 * 3) {
                slots[at].key = key;
                slots[at].value = i;
                used++;
            }
        } else if ((state >> 20 & 3) == 0) {
            sum += slots[at].value;
            erase(at);
        } else {
            slots[at].value += i;
        }
    }
    printf("hash_table %lu %u %016llx\n", operations, used, (unsigned long long)sum);
    return 0;
}
