// Code on a writable and executable page is rewritten between and during its runs, by this
// thread, with no announcement: x86 promises that the new bytes run.
// flags: -O2 -D_GNU_SOURCE
// variants: threaded
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

int main(void) {
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED);
    // mov $N, %eax; ret
    unsigned char answer[] = {0xb8, 0, 0, 0, 0, 0xc3};
    int (*volatile call)(void) = (int (*)(void))page;
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        memcpy(answer + 1, &i, 4);
        memcpy(page, answer, sizeof answer);
        int got = call();
        EXPECT(got == i);
        sum += got;
    }
    // movb $5, 1(%rip) into the next instruction's immediate: mov $0, %eax becomes mov $5.
    unsigned char own[] = {0xc6, 0x05, 0x01, 0, 0, 0, 5, 0xb8, 0, 0, 0, 0, 0xc3};
    for (int i = 0; i < 100; i++) {
        own[6] = (unsigned char)i;
        memcpy(page + 64, own, sizeof own);
        int (*volatile patched)(void) = (int (*)(void))(page + 64);
        EXPECT(patched() == i);
    }
    // A loop that overwrites its own body's operand on each round: add $N, %eax.
    // xor eax,eax; mov ecx,10; L: add eax,1; inc byte [rip-2 -> the 1]; dec ecx; jnz L; ret
    unsigned char loop[] = {0x31, 0xc0, 0xb9, 10, 0, 0, 0, 0x83, 0xc0, 1,
                            0xfe, 0x05, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x75, 0xf3, 0xc3};
    memcpy(page + 128, loop, sizeof loop);
    int (*volatile growing)(void) = (int (*)(void))(page + 128);
    printf("%ld %d\n", sum, growing());
    return 0;
}
