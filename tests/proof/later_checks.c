/* Every way to wait for a moment of the date, and the times of files: exits 0 if all are as they were in it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 20000000L
#define CHECK(claim) \
    do { \
        if (!(claim)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #claim); \
            exit(1); \
        } \
    } while (0)

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static struct timespec soon(clockid_t clock) {
    int64_t moment = now_ns(clock) + WAIT_NS;
    return (struct timespec){moment / 1000000000L, moment % 1000000000L};
}

static void waits(clockid_t clock) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t kind;
    pthread_cond_t condition;
    pthread_condattr_init(&kind);
    pthread_condattr_setclock(&kind, clock);
    pthread_cond_init(&condition, &kind);
    pthread_mutex_lock(&mutex);
    int64_t began = now_ns(CLOCK_MONOTONIC);
    struct timespec until = soon(clock);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
    until = soon(clock);
    CHECK(clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL) == 0);
    struct itimerspec alarm = {.it_value = soon(clock)};
    int timer = timerfd_create(clock, 0);
    CHECK(timerfd_settime(timer, TFD_TIMER_ABSTIME, &alarm, NULL) == 0);
    uint64_t rung;
    CHECK(read(timer, &rung, sizeof rung) == sizeof rung && rung == 1);
    close(timer);
    CHECK(now_ns(CLOCK_MONOTONIC) - began >= 3 * WAIT_NS);
}

static void *locks(void *held) {
    struct timespec until = soon(CLOCK_REALTIME);
    CHECK(pthread_mutex_timedlock(held, &until) == ETIMEDOUT);
    return NULL;
}

int main(int count, char **words) {
    CHECK(count == 3);
    CHECK(labs(time(NULL) - atol(words[1])) < 3600);
    waits(CLOCK_REALTIME);
    waits(CLOCK_MONOTONIC);
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec until = soon(CLOCK_REALTIME);
    CHECK(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    pthread_t other;
    pthread_create(&other, NULL, locks, &mutex);
    pthread_join(other, NULL);
    struct stat found;
    int file = open(words[2], O_CREAT | O_WRONLY, 0644);
    CHECK(fstat(file, &found) == 0 && labs(found.st_mtime - time(NULL)) < 3600);
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 1000000000L}};
    CHECK(futimens(file, times) == 0 && stat(words[2], &found) == 0);
    CHECK(found.st_mtime == 1000000000L && labs(found.st_atime - time(NULL)) < 3600);
    return 0;
}
