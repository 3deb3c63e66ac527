// The x87 stack: extended precision, transcendental functions, rounding and precision
// control, flags of exceptions, packed decimals, and its state saved and restored.
// flags: -O2
// libraries: -lm
// variants: threaded
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

int main(void) {
    long double sum = 0;
    for (int i = 1; i <= 1000; i++)
        sum += 1.0L / i + sinl(i) * cosl(i) + log2l(i) + atan2l(i, 3);
    printf("%.18Lg\n", sum);
    volatile long double large = 1e19L;
    EXPECT(large + 1 != large); // A double would not see the difference.

    int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++) {
        volatile long double value = 2.5L;
        fesetround(modes[i]);
        printf("%lld %lld\n", llrintl(value), llrintl(-value));
    }
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    volatile long double zero = 0, infinite = 1 / zero;
    EXPECT(isinf(infinite) && fetestexcept(FE_DIVBYZERO) && !fetestexcept(FE_INVALID));

    unsigned char decimal[10];
    long double number = 123456789012345678.0L;
    __asm__ volatile("fldt %1\n fbstp %0" : "=m"(decimal) : "m"(number));
    EXPECT(decimal[0] == 0x78 && decimal[8] == 0x12 && decimal[9] == 0);

    unsigned char state[108];
    double result;
    __asm__ volatile("fldpi\n fld1\n fsave %1\n fldz\n frstor %1\n faddp\n fstpl %0"
                     : "=m"(result), "+m"(state));
    printf("%.15g\n", result);
    uint16_t control, control_again = 0;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    unsigned char environment[28];
    __asm__ volatile("fnstenv %1\n fldenv %1\n fnstcw %0" : "=m"(control_again), "+m"(environment));
    EXPECT(control == control_again);
    return 0;
}
