// Repeated string instructions, one of which ends early, a gather and a masked store, in nothing but
// its own instructions: how many elements are accessed, in how many lines and pages, and what a
// cache of 32 KiB misses, follows from the source. With an argument it copies ten bytes more.
// flags: -O1 -static -nostdlib -nostartfiles -fcf-protection=none -no-pie -fno-pie -Wl,--build-id=none
// needs: cpu avx2
// compare: status
__attribute__((aligned(4096))) char source[4096];
__attribute__((aligned(4096))) char target[4096];
// Indexes whose elements are a line apart, and a mask of each second element.
__attribute__((aligned(4096))) int table[16] = {0,  16, 32, 48, 64, 80, 96, 112,
                                                -1, 0,  -1, 0,  -1, 0,  -1, 0};

// Reads: the number of arguments, 100 bytes, 42 bytes twice, 32 bytes twice, eight elements.
// Writes: 100 bytes, 64 elements, one byte, four elements.
__asm__(".globl _start\n"
        "_start: mov (%rsp), %rbx\n"
        "  mov $source, %esi\n"
        "  mov $target, %edi\n"
        "  mov $100, %ecx\n"
        "  rep movsb\n"
        "  mov $target + 1024, %edi\n"
        "  xor %eax, %eax\n"
        "  mov $64, %ecx\n"
        "  rep stosl\n"
        "  movb $1, target + 41\n"
        "  mov $source, %esi\n"
        "  mov $target, %edi\n"
        "  mov $100, %ecx\n"
        "  repe cmpsb\n"
        "  vmovdqu table, %ymm1\n"
        "  vpcmpeqd %ymm2, %ymm2, %ymm2\n"
        "  vpgatherdd %ymm2, source(,%ymm1,4), %ymm0\n"
        "  vmovdqu table + 32, %ymm1\n"
        "  vpmaskmovd %ymm0, %ymm1, target + 2048\n"
        "  vzeroupper\n"
        "  cmp $1, %rbx\n"
        "  je 1f\n"
        "  mov $source + 1280, %esi\n"
        "  mov $target + 2560, %edi\n"
        "  mov $10, %ecx\n"
        "  rep movsb\n"
        "1: mov $60, %eax\n"
        "  xor %edi, %edi\n"
        "  syscall\n");
