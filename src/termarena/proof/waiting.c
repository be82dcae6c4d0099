/* What libfaketime 0.9.10 needs beside it.

   Told to leave the monotonic clock alone, it refuses to sleep until a moment of it (EINVAL): that is how Python sleeps.
   The kernel is asked instead; a moment of the other clock is one of the shifted date.

   Tests often start programs with an environment of their own, in which it would be another day: what shifts the date
   goes along. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define SETTINGS 3
#define LONGEST 1024

long syscall(long number, ...);
extern char **environ;

static const char *const names[SETTINGS] = {"LD_PRELOAD=", "FAKETIME=", "FAKETIME_DONT_FAKE_MONOTONIC="};
static char settings[SETTINGS][LONGEST];

typedef int searching(const char *, char *const[], char *const[]);
typedef int spawning(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const[], char *const[]);

/* Looked up at the start: between a fork and an exec of a program with threads, another of them may hold the lock. */
static searching *real_execvpe;
static spawning *real_posix_spawn, *real_posix_spawnp;

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    struct timespec moment = *wanted;
    if (clock == CLOCK_REALTIME && (flags & TIMER_ABSTIME))
        moment.tv_sec -= SHIFT_S;
    return syscall(SYS_clock_nanosleep, clock, flags, &moment, left) == 0 ? 0 : errno;
}

static const char *find(char *const env[], const char *name) {
    for (; env && *env; env++)
        if (strncmp(*env, name, strlen(name)) == 0)
            return *env;
    return NULL;
}

__attribute__((constructor)) static void remember(int count, char **words, char **env) {
    (void)count, (void)words;
    for (int at = 0; at < SETTINGS; at++) {
        const char *found = find(env, names[at]);
        if (found && strlen(found) < LONGEST)
            strcpy(settings[at], found);
    }
    real_execvpe = (searching *)dlsym(RTLD_NEXT, "execvpe");
    real_posix_spawn = (spawning *)dlsym(RTLD_NEXT, "posix_spawn");
    real_posix_spawnp = (spawning *)dlsym(RTLD_NEXT, "posix_spawnp");
}

static size_t length(char *const env[]) {
    size_t count = 0;
    while (env && env[count])
        count++;
    return count;
}

/* `to` has room for all of `env`, the settings and the end; one that `env` has already stays as it is there. */
static char **completed(char *const env[], char **to) {
    size_t count = length(env);
    for (size_t at = 0; at < count; at++)
        to[at] = env[at];
    for (int at = 0; at < SETTINGS; at++)
        if (settings[at][0] && !find(env, names[at]))
            to[count++] = settings[at];
    to[count] = NULL;
    return to;
}

int execve(const char *path, char *const words[], char *const env[]) {
    char *room[length(env) + SETTINGS + 1];
    return (int)syscall(SYS_execve, path, words, completed(env, room));
}

int execv(const char *path, char *const words[]) {
    return execve(path, words, environ);
}

int execvpe(const char *name, char *const words[], char *const env[]) {
    char *room[length(env) + SETTINGS + 1];
    return real_execvpe(name, words, completed(env, room));
}

int execvp(const char *name, char *const words[]) {
    return execvpe(name, words, environ);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const words[], char *const env[]) {
    char *room[length(env) + SETTINGS + 1];
    return real_posix_spawn(pid, path, actions, attributes, words, completed(env, room));
}

int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const words[], char *const env[]) {
    char *room[length(env) + SETTINGS + 1];
    return real_posix_spawnp(pid, name, actions, attributes, words, completed(env, room));
}
