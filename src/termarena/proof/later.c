/* Another date for the programs that load this: SHIFT_S seconds later, for good.

   Nothing is locked and nothing is read but the clock itself, so that programs with many threads are as fast as ever;
   libfaketime takes a lock for every look at the clock. Clocks that do not tell the date stay as they are; moments of
   the date that a program waits for, and the times of files, are those of the shifted one.

   Tests often start programs with an environment of their own, in which it would be another day: what shifts the date
   goes along. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define LONGEST 1024
/* A moment behind it is one of the date: no machine runs for thirty years. */
#define LEAST_DATE_S 1000000000L

extern char **environ;
extern void *dlvsym(void *, const char *, const char *) __attribute__((weak));

static const char name_of_preload[] = "LD_PRELOAD=";
static char preload[LONGEST];

/* Looked up at the start: between a fork and an exec of a program with threads, another of them may hold the lock. */
typedef int (*waiting)();
static struct {
    int (*clock_gettime)(clockid_t, struct timespec *);
    waiting execvpe, posix_spawn, posix_spawnp, timer_settime;
    waiting cond_timedwait, cond_clockwait, sem_timedwait, sem_clockwait, mutex_timedlock, mutex_clocklock;
    waiting rdlock_timed, wrlock_timed, rdlock_clock, wrlock_clock, timedjoin, clockjoin;
} real;

static waiting next_of(const char *name) {
    return (waiting)dlsym(RTLD_NEXT, name);
}

/* Without its version this is a function for programs of before 2003. */
static waiting next_condition(const char *name) {
    void *found = dlvsym ? dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2") : NULL;
    return found ? (waiting)found : next_of(name);
}

typedef long calling(long, ...);
static calling *real_syscall;

static calling *kernel(void) {
    if (!real_syscall)
        real_syscall = (calling *)dlsym(RTLD_NEXT, "syscall");
    return real_syscall;
}

static const char *find(char *const env[], const char *name) {
    for (; env && *env; env++)
        if (strncmp(*env, name, strlen(name)) == 0)
            return *env;
    return NULL;
}

__attribute__((constructor)) static void remember(int count, char **words, char **env) {
    (void)count, (void)words;
    const char *found = find(env, name_of_preload);
    if (found && strlen(found) < LONGEST)
        strcpy(preload, found);
    kernel();
    real.execvpe = next_of("execvpe");
    real.posix_spawn = next_of("posix_spawn");
    real.posix_spawnp = next_of("posix_spawnp");
    real.timer_settime = next_condition("timer_settime");
    real.cond_timedwait = next_condition("pthread_cond_timedwait");
    real.cond_clockwait = next_of("pthread_cond_clockwait");
    real.sem_timedwait = next_of("sem_timedwait");
    real.sem_clockwait = next_of("sem_clockwait");
    real.mutex_timedlock = next_of("pthread_mutex_timedlock");
    real.mutex_clocklock = next_of("pthread_mutex_clocklock");
    real.rdlock_timed = next_of("pthread_rwlock_timedrdlock");
    real.wrlock_timed = next_of("pthread_rwlock_timedwrlock");
    real.rdlock_clock = next_of("pthread_rwlock_clockrdlock");
    real.wrlock_clock = next_of("pthread_rwlock_clockwrlock");
    real.timedjoin = next_of("pthread_timedjoin_np");
    real.clockjoin = next_of("pthread_clockjoin_np");
    real.clock_gettime = (int (*)(clockid_t, struct timespec *))next_of("clock_gettime");
}

/* The date. */

static int tells_date(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI || clock == CLOCK_REALTIME_ALARM;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = real.clock_gettime ? real.clock_gettime(clock, now) : (int)kernel()(SYS_clock_gettime, clock, now);
    if (status == 0 && tells_date(clock))
        now->tv_sec += SHIFT_S;
    return status;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    if (zone)
        memset(zone, 0, sizeof(struct timezone));
    int status = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return status;
}

time_t time(time_t *to) {
    struct timespec found;
    /* The coarse clock is what the kernel's own `time` tells; it never runs before the times of files. */
    clock_gettime(CLOCK_REALTIME_COARSE, &found);
    if (to)
        *to = found.tv_sec;
    return found.tv_sec;
}

int timespec_get(struct timespec *to, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, to) == 0 ? base : 0;
}

/* Waiting. */

static struct timespec shifted(const struct timespec *moment, int is_date) {
    struct timespec found = *moment;
    if (is_date && found.tv_sec >= LEAST_DATE_S)
        found.tv_sec -= SHIFT_S;
    return found;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    struct timespec moment = shifted(wanted, (flags & TIMER_ABSTIME) && tells_date(clock));
    return kernel()(SYS_clock_nanosleep, clock, flags, &moment, left) == 0 ? 0 : errno;
}

/* Whether a condition waits for a moment of the date, only its moments tell. */
#define TIMED(function, original, kind)                                                                                \
    int function(kind one, const struct timespec *until) {                                                            \
        struct timespec moment = shifted(until, 1);                                                                    \
        return real.original(one, &moment);                                                                           \
    }
#define CLOCKED(function, original, kind)                                                                              \
    int function(kind one, clockid_t clock, const struct timespec *until) {                                           \
        struct timespec moment = shifted(until, tells_date(clock));                                                    \
        return real.original(one, clock, &moment);                                                                    \
    }

TIMED(sem_timedwait, sem_timedwait, sem_t *restrict)
CLOCKED(sem_clockwait, sem_clockwait, sem_t *restrict)
TIMED(pthread_mutex_timedlock, mutex_timedlock, pthread_mutex_t *restrict)
CLOCKED(pthread_mutex_clocklock, mutex_clocklock, pthread_mutex_t *restrict)
TIMED(pthread_rwlock_timedrdlock, rdlock_timed, pthread_rwlock_t *restrict)
TIMED(pthread_rwlock_timedwrlock, wrlock_timed, pthread_rwlock_t *restrict)
CLOCKED(pthread_rwlock_clockrdlock, rdlock_clock, pthread_rwlock_t *restrict)
CLOCKED(pthread_rwlock_clockwrlock, wrlock_clock, pthread_rwlock_t *restrict)

int pthread_cond_timedwait(pthread_cond_t *restrict one, pthread_mutex_t *restrict held,
                           const struct timespec *restrict until) {
    struct timespec moment = shifted(until, 1);
    return real.cond_timedwait(one, held, &moment);
}

int pthread_cond_clockwait(pthread_cond_t *restrict one, pthread_mutex_t *restrict held, clockid_t clock,
                           const struct timespec *restrict until) {
    struct timespec moment = shifted(until, tells_date(clock));
    return real.cond_clockwait(one, held, clock, &moment);
}

int pthread_timedjoin_np(pthread_t one, void **result, const struct timespec *until) {
    struct timespec moment = until ? shifted(until, 1) : (struct timespec){0};
    return real.timedjoin(one, result, until ? &moment : NULL);
}

int pthread_clockjoin_np(pthread_t one, void **result, clockid_t clock, const struct timespec *until) {
    struct timespec moment = until ? shifted(until, tells_date(clock)) : (struct timespec){0};
    return real.clockjoin(one, result, clock, until ? &moment : NULL);
}

ssize_t mq_timedreceive(mqd_t queue, char *restrict text, size_t size, unsigned *restrict rank,
                        const struct timespec *restrict until) {
    struct timespec moment = shifted(until, 1);
    return kernel()(SYS_mq_timedreceive, queue, text, size, rank, &moment);
}

int mq_timedsend(mqd_t queue, const char *text, size_t size, unsigned rank, const struct timespec *until) {
    struct timespec moment = shifted(until, 1);
    return (int)kernel()(SYS_mq_timedsend, queue, text, size, rank, &moment);
}

int timerfd_settime(int timer, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    struct itimerspec moment = *wanted;
    moment.it_value = shifted(&wanted->it_value, flags & TFD_TIMER_ABSTIME);
    return (int)kernel()(SYS_timerfd_settime, timer, flags, &moment, before);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict wanted,
                  struct itimerspec *restrict before) {
    struct itimerspec moment = *wanted;
    moment.it_value = shifted(&wanted->it_value, flags & TIMER_ABSTIME);
    return real.timer_settime(timer, flags, &moment, before);
}

/* The times of files: the kernel's are those of the real date. */

static int told(int status, struct stat *found) {
    if (status == 0) {
        found->st_atim.tv_sec += SHIFT_S;
        found->st_mtim.tv_sec += SHIFT_S;
        found->st_ctim.tv_sec += SHIFT_S;
    }
    return status;
}

int fstatat(int folder, const char *restrict path, struct stat *restrict found, int flags) {
    return told((int)kernel()(SYS_newfstatat, folder, path, found, flags), found);
}

int fstat(int file, struct stat *found) {
    return told((int)kernel()(SYS_fstat, file, found), found);
}

int stat(const char *restrict path, struct stat *restrict found) {
    return fstatat(AT_FDCWD, path, found, 0);
}

int lstat(const char *restrict path, struct stat *restrict found) {
    return fstatat(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found) {
    int status = (int)kernel()(SYS_statx, folder, path, flags, mask, found);
    if (status == 0) {
        found->stx_atime.tv_sec += SHIFT_S;
        found->stx_mtime.tv_sec += SHIFT_S;
        found->stx_ctime.tv_sec += SHIFT_S;
        found->stx_btime.tv_sec += found->stx_mask & STATX_BTIME ? SHIFT_S : 0;
    }
    return status;
}

/* The same under the names that programs of glibc have them by. */
#define ALSO(name, known) __asm__(".globl " #name "\n.set " #name ", " #known)
ALSO(stat64, stat);
ALSO(lstat64, lstat);
ALSO(fstat64, fstat);
ALSO(fstatat64, fstatat);
ALSO(__xstat64, __xstat);
ALSO(__lxstat64, __lxstat);
ALSO(__fxstat64, __fxstat);
ALSO(__fxstatat64, __fxstatat);
int __xstat(int kind, const char *path, struct stat *found) { return (void)kind, stat(path, found); }
int __lxstat(int kind, const char *path, struct stat *found) { return (void)kind, lstat(path, found); }
int __fxstat(int kind, int file, struct stat *found) { return (void)kind, fstat(file, found); }
int __fxstatat(int kind, int folder, const char *path, struct stat *found, int flags) {
    return (void)kind, fstatat(folder, path, found, flags);
}

static int set_times(int folder, const char *path, const struct timespec times[2], int flags) {
    struct timespec real_times[2];
    for (int at = 0; times && at < 2; at++) {
        real_times[at] = times[at];
        if (times[at].tv_nsec != UTIME_NOW && times[at].tv_nsec != UTIME_OMIT)
            real_times[at].tv_sec -= SHIFT_S;
    }
    return (int)kernel()(SYS_utimensat, folder, path, times ? real_times : NULL, flags);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    return set_times(folder, path, times, flags);
}

int futimens(int file, const struct timespec times[2]) {
    return set_times(file, NULL, times, 0);
}

static int set_both(int folder, const char *path, const struct timeval times[2], int flags) {
    struct timespec wanted[2];
    for (int at = 0; times && at < 2; at++)
        wanted[at] = (struct timespec){times[at].tv_sec, times[at].tv_usec * 1000};
    return set_times(folder, path, times ? wanted : NULL, flags);
}

int utimes(const char *path, const struct timeval times[2]) {
    return set_both(AT_FDCWD, path, times, 0);
}

int lutimes(const char *path, const struct timeval times[2]) {
    return set_both(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

int futimes(int file, const struct timeval times[2]) {
    return set_both(file, NULL, times, 0);
}

int futimesat(int folder, const char *path, const struct timeval times[2]) {
    return set_both(folder, path, times, 0);
}

int utime(const char *path, const struct utimbuf *times) {
    struct timeval wanted[2] = {{times ? times->actime : 0, 0}, {times ? times->modtime : 0, 0}};
    return set_both(AT_FDCWD, path, times ? wanted : NULL, 0);
}

/* What Node asks the kernel for by its number. */
long syscall(long number, ...) {
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int at = 0; at < 6; at++)
        given[at] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_statx)
        return statx((int)given[0], (const char *)given[1], (int)given[2], (unsigned)given[3], (struct statx *)given[4]);
    if (number == SYS_clock_gettime)
        return clock_gettime((clockid_t)given[0], (struct timespec *)given[1]);
    return kernel()(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

/* Programs that are started from here. */

static size_t length(char *const env[]) {
    size_t count = 0;
    while (env && env[count])
        count++;
    return count;
}

/* `to` has room for all of `env`, what loads this and the end; another that `env` has already stays as it is there. */
static char **completed(char *const env[], char **to) {
    size_t count = length(env);
    for (size_t at = 0; at < count; at++)
        to[at] = env[at];
    if (preload[0] && !find(env, name_of_preload))
        to[count++] = preload;
    to[count] = NULL;
    return to;
}

int execve(const char *path, char *const words[], char *const env[]) {
    char *room[length(env) + 2];
    return (int)kernel()(SYS_execve, path, words, completed(env, room));
}

int execv(const char *path, char *const words[]) {
    return execve(path, words, environ);
}

int execvpe(const char *name, char *const words[], char *const env[]) {
    char *room[length(env) + 2];
    return real.execvpe(name, words, completed(env, room));
}

int execvp(const char *name, char *const words[]) {
    return execvpe(name, words, environ);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const words[], char *const env[]) {
    char *room[length(env) + 2];
    return real.posix_spawn(pid, path, actions, attributes, words, completed(env, room));
}

int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const words[], char *const env[]) {
    char *room[length(env) + 2];
    return real.posix_spawnp(pid, name, actions, attributes, words, completed(env, room));
}
