/* libfaketime 0.9.10, told to leave the monotonic clock alone, refuses to sleep until a moment of it (EINVAL): that is
   how Python sleeps. The kernel is asked instead; a moment of the other clock is one of the shifted date. */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

long syscall(long number, ...);

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    struct timespec moment = *wanted;
    if (clock == CLOCK_REALTIME && (flags & TIMER_ABSTIME))
        moment.tv_sec -= SHIFT_S;
    return syscall(SYS_clock_nanosleep, clock, flags, &moment, left) == 0 ? 0 : errno;
}
