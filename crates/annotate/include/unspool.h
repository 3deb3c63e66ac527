/*
 * Tells Unspool about the program: which thread is which, and which part is of interest.
 * For C (C99 and later) and C++ (C++11 and later); nothing has to be linked.
 *
 *   unspool_register_thread(3, "worker");   names the calling thread
 *   unspool_start_region();                 what follows is of interest ...
 *   unspool_end_region();                   ... up to here
 *
 *   unspool_begin_interval("solver");       what this thread does now is one interval ...
 *   unspool_end_interval();                 ... up to here: `unspool openmp` has figures of each
 *
 * Without Unspool the calls have no effect and cost a few instructions. With it they appear
 * in the trace; with `--roi`, memory accesses are traced only inside regions, and with
 * `--registered-only`, only those of registered threads. `unspool profile --roi` keeps samples
 * only of regions, which are each process's own there.
 *
 * How it works: each call executes one no-operation instruction with a displacement that no
 * compiler produces, nopl 0x554e5350(%rax,%rax,1), and Unspool recognises it while it
 * translates. Registers: rdi the operation, rsi and rdx its arguments. Nothing is changed.
 * Programs that run untranslated call functions that are there only while `unspool openmp` or
 * `unspool profile --roi` observes them, found by weak symbols: intervals and regions do.
 *
 * On other processors than x86-64, and with compilers that do not know GNU assembler
 * statements, the calls do nothing at all.
 */
#ifndef UNSPOOL_H
#define UNSPOOL_H

#include <stddef.h>
#include <stdint.h>

/* The operations, as in rdi. */
#define UNSPOOL_REGISTER_THREAD INT64_C(1)
#define UNSPOOL_START_REGION INT64_C(2)
#define UNSPOOL_END_REGION INT64_C(3)

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
/* The bytes are written out so that every assembler encodes the instruction alike. The
 * memory clobber keeps accesses on their side of the mark. */
#define UNSPOOL_MARK(operation, first, second)                                               \
    __asm__ __volatile__(".byte 0x0f, 0x1f, 0x84, 0x00, 0x50, 0x53, 0x4e, 0x55"              \
                         :                                                                   \
                         : "D"(operation), "S"(first), "d"(second)                           \
                         : "memory")
/* A function that may be there: its address, or a null pointer. Weak, and read from the table
 * that the loader fills, so that no linker settles it before. */
#define UNSPOOL_FIND(symbol, function)                                                       \
    __asm__ __volatile__(".weak " symbol "\n\tmovq " symbol "@GOTPCREL(%%rip), %0"           \
                         : "=r"(function))
#else
#define UNSPOOL_MARK(operation, first, second) ((void)(first), (void)(second))
#define UNSPOOL_FIND(symbol, function) ((void)(function))
#endif

#ifdef __cplusplus
#define UNSPOOL_NO_POINTER nullptr
#define UNSPOOL_NO_FUNCTION nullptr
extern "C" {
#else
#define UNSPOOL_NO_POINTER ((const void *)0)
#define UNSPOOL_NO_FUNCTION 0
#endif

/*
 * Gives the calling thread a number, by which the trace names it from now on, and a name
 * for people. The name ends with a zero byte; none may be given as a null pointer.
 */
static inline void unspool_register_thread(int64_t number, const char *name)
{
    UNSPOOL_MARK(UNSPOOL_REGISTER_THREAD, number, name);
}

typedef void (*unspool_end_function)(void);

/* Calls a function of no arguments, where it is there. */
#define UNSPOOL_CALL(symbol)                                                                 \
    do {                                                                                     \
        unspool_end_function function = UNSPOOL_NO_FUNCTION;                                 \
        UNSPOOL_FIND(symbol, function);                                                      \
        if (function != UNSPOOL_NO_FUNCTION)                                                 \
            function();                                                                      \
    } while (0)

/* Begins a region of interest, for all threads. */
static inline void unspool_start_region(void)
{
    UNSPOOL_MARK(UNSPOOL_START_REGION, INT64_C(0), UNSPOOL_NO_POINTER);
    UNSPOOL_CALL("unspool_profile_start_region");
}

/* Ends the region of interest, for all threads. */
static inline void unspool_end_region(void)
{
    UNSPOOL_MARK(UNSPOOL_END_REGION, INT64_C(0), UNSPOOL_NO_POINTER);
    UNSPOOL_CALL("unspool_profile_end_region");
}

typedef void (*unspool_begin_function)(uint64_t, const char *, size_t);

/*
 * Begins an interval of this name in the calling thread. Intervals nest, and one may be entered
 * often. The name ends with a zero byte and stays where it is, as a string literal does.
 */
static inline void unspool_begin_interval(const char *name)
{
    unspool_begin_function begin = UNSPOOL_NO_FUNCTION;
    UNSPOOL_FIND("unspool_openmp_enter_interval", begin);
    if (begin != UNSPOOL_NO_FUNCTION) {
        size_t length = 0;
        while (name[length] != 0)
            length++;
        begin((uint64_t)(uintptr_t)name, name, length);
    }
}

/* Ends the innermost interval of the calling thread. */
static inline void unspool_end_interval(void)
{
    unspool_end_function end = UNSPOOL_NO_FUNCTION;
    UNSPOOL_FIND("unspool_openmp_leave_interval", end);
    if (end != UNSPOOL_NO_FUNCTION)
        end();
}

#ifdef __cplusplus
} /* extern "C" */

/*
 * The same under the names that programs written for atomic-memory-trace use, so that they
 * compile unchanged and their function lists stay valid. They are functions of their own,
 * never inlined, because such tools find them by name; unused, they leave no trace in the
 * program. Define UNSPOOL_WITHOUT_ATOMIC_TRACE if the program brings its own.
 */
#ifndef UNSPOOL_WITHOUT_ATOMIC_TRACE
#if defined(__clang__) || !defined(__GNUC__)
#define UNSPOOL_OUT_OF_LINE __attribute__((noinline))
#else
#define UNSPOOL_OUT_OF_LINE __attribute__((noinline, noclone))
#endif

namespace atomic_trace {

/* Gives the calling thread a number. */
UNSPOOL_OUT_OF_LINE inline void register_thread(int64_t thread_num)
{
    UNSPOOL_MARK(UNSPOOL_REGISTER_THREAD, thread_num, UNSPOOL_NO_POINTER);
}

/* Begins a region of interest. */
UNSPOOL_OUT_OF_LINE inline void start_roi()
{
    UNSPOOL_MARK(UNSPOOL_START_REGION, INT64_C(0), UNSPOOL_NO_POINTER);
    UNSPOOL_CALL("unspool_profile_start_region");
}

/* Ends the region of interest. */
UNSPOOL_OUT_OF_LINE inline void end_roi()
{
    UNSPOOL_MARK(UNSPOOL_END_REGION, INT64_C(0), UNSPOOL_NO_POINTER);
    UNSPOOL_CALL("unspool_profile_end_region");
}

} // namespace atomic_trace
#endif /* UNSPOOL_WITHOUT_ATOMIC_TRACE */
#endif /* __cplusplus */

#endif /* UNSPOOL_H */
